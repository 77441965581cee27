"""Labeled failures, and lines of five tools to put around them."""

import random
from typing import Any

KIB = 1024
MESSAGE_LINES = 10  # of an output that is reported as an exit, its message
Case = dict[str, Any]

WORDS = ("alpha", "order", "config", "loader", "planner", "errors", "retry", "total", "widget")


def pip_lines(pick: random.Random) -> str:
    return f"Collecting {pick.choice(WORDS)}-{pick.choice(WORDS)}==3.{pick.randint(0, 99)}"


def pytest_lines(pick: random.Random) -> str:
    name = pick.choice(WORDS)
    return f"tests/test_{name}.py::test_{name}_{pick.randint(1, 9999)} PASSED [ 7%]"


def cargo_lines(pick: random.Random) -> str:
    return (
        f"   Compiling {pick.choice(('thiserror', 'anyhow', 'serde'))} v1.{pick.randint(0, 99)}.0"
    )


def npm_lines(pick: random.Random) -> str:
    name = pick.choice(WORDS)
    return (
        f"npm warn deprecated {name}@{pick.randint(1, 9)}.0.0: this library is no longer supported"
    )


def webpack_lines(pick: random.Random) -> str:
    return f"  ./src/{pick.choice(WORDS)}/{pick.randint(1, 9999)}.ts 3.2 KiB [built] 0 errors, 1 warning"


FILLERS = (pip_lines, pytest_lines, cargo_lines, npm_lines, webpack_lines)
