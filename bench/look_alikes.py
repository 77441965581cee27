"""Generate failures that look alike: the same words for another cause, or other words for the same.

Each form has slots. A slot of `APART` names what a fix depends on, so another value is another
cause; a slot of `ALIKE` differs between two runs of one cause.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

APART: dict[str, tuple[str, ...]] = {
    "port": ("6379", "5432", "9200", "27017", "8080"),
    "host": ("db.acme.test", "cache.acme.test", "queue-1.acme.test", "10.4.0.9", "10.4.0.7"),
    "module": ("polars", "fastapi", "left-pad", "@acme/core", "yaml"),
    "package": ("zlib", "openssl", "libpq", "ffi", "jpeg"),
    "path": ("app/config/settings.yml", "tests/fixtures/settings.yml", "ops/data/settings.yml"),
    "file": ("app/parser.py", "billing/tax.py", "api/orders.py", "jobs/parser.py"),
    "js": ("src/cart.js", "lib/tax.js", "src/orders.js", "web/cart.js"),
    "test_file": ("tests/test_orders.py", "tests/test_invoices.py", "api/test_orders.py"),
    "message": ("credit balance is too low", "model is not available here", "body has no field"),
    "program": ("bin/worker", "bin/indexer", "tools/worker"),
    "setting": ("DATABASE_URL", "SMTP_HOST", "API_TOKEN"),
    "table": ("orders", "invoices", "tax_rates"),
    "function": ("parse", "load", "total"),
}
ALIKE: dict[str, tuple[str, ...]] = {
    "line": ("3", "12", "407"),
    "column": ("1", "18", "77"),
    "seconds": ("0.2", "12.75", "300"),
    "address": ("0x7f10a2", "0x55d0c1", "0x10fe44"),
    "root": ("/srv", "/home/dev/build-2f91c3", "/tmp/tmp81ha2"),
    "importer": ("/srv/web/main.js", "/srv/web/cli.js", "/srv/web/jobs/run.js"),
    "process": ("411", "90210", "7"),
}
FORMS = (
    "Error: connect ECONNREFUSED 127.0.0.1:{port}\n    at net.js:{line}:{column}",
    "dial tcp {host}:{port}: connect: connection refused after {seconds}s",
    "Error: listen EADDRINUSE: address already in use :::{port}",
    "requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='{host}', port={port}): timed out",
    "getaddrinfo failed: could not resolve host: {host}",
    "ModuleNotFoundError: No module named '{module}'",
    "Error [ERR_MODULE_NOT_FOUND]: Cannot find package '{module}' imported from {importer}",
    "configure: error: library {package} not found",
    "Error: ENOENT: no such file or directory, open '{root}/{path}'",
    "PermissionError: [Errno 13] Permission denied: '{root}/{path}'",
    'Traceback (most recent call last):\n  File "{root}/{file}", line {line}, in {function}\n'
    "    x[9]\nIndexError: list index out of range",
    'Traceback (most recent call last):\n  File "{root}/{file}", line {line}, in {function}\n'
    "    row.total\nAttributeError: 'NoneType' object has no attribute 'total'",
    "TypeError: Cannot read properties of undefined (reading 'map')\n"
    "    at {function} ({root}/{js}:{line}:{column})\n"
    "    at run ({root}/node_modules/runner/index.js:9:1)",
    "panic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:\n"
    "main.{function}({address})\n\t{root}/{function}/main.go:{line} +0x1d",
    "FAILED {test_file}::test_create - assert 400 == 201\n1 failed in {seconds}s",
    'API Error: 400 {{"type":"error","error":{{"type":"invalid_request_error","message":'
    '"Your {message}"}},"request_id":"req_{process}"}}',
    "run.sh: line {line}: {process} Segmentation fault      (core dumped) {root}/{program}",
    "KeyError: '{setting}'",
    'psycopg.errors.UndefinedTable: relation "{table}" does not exist\nLINE {line}: select',
)


@dataclass(frozen=True)
class Pair:
    """Two failures, what differs between them, and whether they have one cause."""

    slot: str
    one: str
    other: str

    @property
    def is_alike(self) -> bool:
        return self.slot in ALIKE


def build_pairs(seed: int = 5) -> Iterator[Pair]:
    """Yield pairs of failures of each form that differ in one slot."""
    pick = random.Random(seed)
    values = APART | ALIKE
    for form in FORMS:
        slots = [name for name in values if f"{{{name}}}" in form]
        for slot in slots:
            for one, other in combinations(values[slot], 2):
                rest = {name: pick.choice(values[name]) for name in slots}
                yield Pair(
                    slot, form.format(**(rest | {slot: one})), form.format(**(rest | {slot: other}))
                )
