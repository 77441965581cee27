"""Start the longest tests first, so that none is left at the end for one of several processes.

pytest-django runs tests without a database last. pytest-xdist gives each process a part of the list,
from the first test to the last.
"""

import os
from itertools import chain

import pytest

# Files whose tests take half a minute or more together, without the tests' database. The longest
# is the first.
FILES = (
    "versions/test_last_release.py",
    "docs/test_commands.py",
    "config/local/test_up.py",
    "bench/test_chaos.py",
    "bench/test_quick_suites.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    long: list[list[pytest.Item]] = [[] for _ in range(count)]
    for number, file in enumerate(FILES):
        long[number % count] += [each for each in items if each.path.match(f"tests/{file}")]
    first = {*chain(*long)}
    others = [each for each in items if each not in first]
    items[:] = chain(*(part + rest for part, rest in zip(long, split(others, long), strict=True)))


def split(others: list[pytest.Item], long: list[list[pytest.Item]]) -> list[list[pytest.Item]]:
    """Return the other tests of each process, so that all processes begin with as many tests."""
    parts, left = [], len(others) + sum(map(len, long))
    for number, part in enumerate(long):
        share = left // (len(long) - number)
        left -= share
        size = max(0, share - len(part))
        parts.append(others[:size])
        others = others[size:]
    parts[-1] += others
    return parts
