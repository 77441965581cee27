"""An output of 4 MiB: only what is stored is redacted, and no half of a secret is stored."""

import time
import tracemalloc

import pytest

from retries.attempts.report_fields import OUTPUT_BYTES, clean_output
from tests.ledger.gitleaks_rules import ALNUM, join

MIB = 1024 * 1024
LINE = "the token of test 12 of src/app.ts: expected 5 to be 6\n"


def test_a_long_output_costs_little() -> None:
    output = LINE * (4 * MIB // len(LINE))
    before = time.process_time()
    stored = clean_output(output)
    assert time.process_time() - before < 1  # `bench context` measures it
    assert len(stored.encode()) <= OUTPUT_BYTES and stored.startswith(LINE)
    assert all(
        line + "\n" == LINE or "left out" in line or not line for line in stored.splitlines()
    )


def test_a_long_output_takes_little_memory() -> None:
    output = LINE * (4 * MIB // len(LINE))
    tracemalloc.start()
    clean_output(output)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 40 * MIB


@pytest.mark.parametrize("shift", range(0, 400, 25))
def test_no_half_of_a_secret_is_stored(shift: int) -> None:
    secret = join("-----BEGIN RSA ", "PRIVATE KEY-----\n") + ALNUM[:64] + "\n"
    secret += ALNUM[:64] + join("\n-----END RSA ", "PRIVATE KEY-----\n")
    stored = clean_output("x" * shift + secret * (MIB // len(secret)))
    assert ALNUM[:20] not in stored and len(stored.encode()) <= OUTPUT_BYTES
