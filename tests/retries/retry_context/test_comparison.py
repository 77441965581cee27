"""Two failures are compared by the sets of their errors (RTY-2, RTY-10)."""

from typing import Any

import pytest

from retries.retry_context.block import History, render_retry_context
from tests.retries.retry_context.test_block import failed, texts

TSC = (
    "src/a.ts(10,5): error TS2304: Cannot find name 'total'.\n"
    "src/b.ts(22,9): error TS2345: Argument of type 'string' is not assignable.\n"
    "src/c.ts(7,3): error TS2339: Property 'vat' does not exist on type 'Order'.\n",
    "src/a.ts(14,5): error TS2304: Cannot find name 'total'.\n"
    "src/b.ts(22,9): error TS2345: Argument of type 'string' is not assignable.\n"
    "src/d.ts(3,1): error TS2554: Expected 2 arguments, but got 1.\n",
)
PYTEST = (
    "=== FAILURES ===\n"
    "FAILED tests/test_a.py::test_total - assert 3 == 4\n"
    "FAILED tests/test_a.py::test_vat[a] - KeyError: 'vat'\n"
    "FAILED tests/test_a.py::test_vat[b] - KeyError: 'vat'\n"
    "3 failed, 9 passed in 0.12s\n",
    "=== FAILURES ===\n"
    "FAILED tests/test_a.py::test_total - TypeError: unsupported operand\n"
    "FAILED tests/test_a.py::test_vat[b] - KeyError: 'vat'\n"
    "2 failed, 10 passed in 0.31s\n",
)
JEST = (
    " FAIL  src/sum.test.js\n  \u25cf sum \u203a adds\n\n    TypeError: add is not a function\n\n"
    "  \u25cf sum \u203a subtracts\n\n    TypeError: sub is not a function\n\n"
    "Tests:       2 failed, 5 passed, 7 total\n",
    " FAIL  src/sum.test.js\n  \u25cf sum \u203a subtracts\n\n    TypeError: sub is not a function\n"
    "\n  \u25cf sum \u203a divides\n\n    RangeError: division by zero\n\n"
    "Tests:       2 failed, 5 passed, 7 total\n",
)
GO = (
    "--- FAIL: TestTotal (0.00s)\n    a_test.go:7: total() = 27, want 30\n"
    "--- FAIL: TestVat (0.00s)\n    a_test.go:17: vat() = 2, want 3\nFAIL\n",
    "--- FAIL: TestVat (0.01s)\n    a_test.go:19: vat() = 2, want 3\nFAIL\n",
)
CARGO = (
    "error[E0308]: mismatched types\n  --> src/main.rs:3:18\n   |\n3  |     let x: i32 = s;\n\n"
    "error[E0425]: cannot find value `y` in this scope\n  --> src/lib.rs:9:5\n",
    "error[E0425]: cannot find value `y` in this scope\n  --> src/lib.rs:12:5\n\n"
    "error[E0599]: no method named `sum` found\n  --> src/lib.rs:20:7\n",
)
ESLINT = (
    "\n/home/dev/shop/src/a.js\n  1:7   error    'x' is never used  no-unused-vars\n"
    "  3:1   warning  Unexpected console statement  no-console\n"
    "\n/home/dev/shop/src/b.js\n  12:5  error  'y' is not defined  no-undef\n\n"
    "\u2716 3 problems (2 errors, 1 warning)\n",
    "\n/home/dev/shop/src/b.js\n  15:5  error  'y' is not defined  no-undef\n"
    "  16:5  error  'z' is not defined  no-undef\n\n\u2716 2 problems (2 errors, 0 warnings)\n",
)
MAVEN = (
    "[ERROR] COMPILATION ERROR : \n"
    "[ERROR] /home/dev/1/src/main/Tax.java:[27,16] cannot find symbol\n"
    "[ERROR]   symbol:   variable RATE\n"
    "[ERROR] /home/dev/1/src/main/Order.java:[9,5] incompatible types: String\n",
    "[ERROR] COMPILATION ERROR : \n"
    "[ERROR] /home/dev/2/src/main/Tax.java:[31,16] cannot find symbol\n"
    "[ERROR]   symbol:   variable RATE\n"
    "[ERROR] /home/dev/2/src/main/Tax.java:[33,16] cannot find symbol\n"
    "[ERROR]   symbol:   variable BASE\n",
)


def verified(output: str) -> dict[str, Any]:
    return {"command": "check", "exit_code": 1, "output": output}


def render(*outputs: str, suggested_fix: str = "", tried: dict[int, str] | None = None) -> str:
    failures = [
        failed(n, verification=verified(output), suggested_fix=suggested_fix)
        for n, output in enumerate(outputs, 1)
    ]
    past = History(failures=failures, tried=tried or {})
    return render_retry_context(past, attempt=len(failures) + 1, max_attempts=9)


def read_standing(block: str) -> dict[str, list[str]]:
    """Return the lines of the standing by their titles; those before the first title by ''."""
    found: dict[str, list[str]] = {"": []}
    title = ""
    for line in texts(block, "standing")[0].splitlines():
        if line.startswith("- "):
            found[title].append(line.removeprefix("- "))
        elif line.endswith(":"):
            title = line
            found[title] = []
        else:
            found[""].append(line)
    return found


@pytest.mark.parametrize(
    ("outputs", "sentence", "gone", "remaining", "new"),
    [
        (
            TSC,
            "2 of the 3 errors of attempt 1 remain in attempt 2; 1 is gone, 1 is new.",
            ["src/c.ts: error TS2339: Property 'vat' does not exist on type 'Order'."],
            [
                "src/a.ts: error TS2304: Cannot find name 'total'.",
                "src/b.ts: error TS2345: Argument of type 'string' is not assignable.",
            ],
            ["src/d.ts: error TS2554: Expected 2 arguments, but got 1."],
        ),
        (
            PYTEST,
            "1 of the 3 errors of attempt 1 remains in attempt 2; 1 is gone, "
            "1 is told with another message.",
            ["tests/test_a.py::test_vat[a]: KeyError: 'vat'"],
            ["tests/test_a.py::test_vat[b]: KeyError: 'vat'"],
            [],
        ),
        (
            JEST,
            "1 of the 2 errors of attempt 1 remains in attempt 2; 1 is gone, 1 is new.",
            ["sum \u203a adds: TypeError: add is not a function"],
            ["sum \u203a subtracts: TypeError: sub is not a function"],
            ["sum \u203a divides: RangeError: division by zero"],
        ),
        (
            GO,
            "1 of the 2 errors of attempt 1 remains in attempt 2; 1 is gone.",
            ["TestTotal: a_test.go:7: total() = 27, want 30"],
            ["TestVat: a_test.go:19: vat() = 2, want 3"],
            [],
        ),
        (
            CARGO,
            "1 of the 2 errors of attempt 1 remains in attempt 2; 1 is gone, 1 is new.",
            ["src/main.rs: error[E0308]: mismatched types"],
            ["src/lib.rs: error[E0425]: cannot find value `y` in this scope"],
            ["src/lib.rs: error[E0599]: no method named `sum` found"],
        ),
        (
            ESLINT,
            "1 of the 2 errors of attempt 1 remains in attempt 2; 1 is gone, 1 is new.",
            ["/home/dev/shop/src/a.js: 'x' is never used no-unused-vars"],
            ["/home/dev/shop/src/b.js: 'y' is not defined no-undef"],
            ["/home/dev/shop/src/b.js: 'z' is not defined no-undef"],
        ),
        (
            MAVEN,
            "1 of the 2 errors of attempt 1 remains in attempt 2; 1 is gone, 1 is new.",
            ["/home/dev/1/src/main/Order.java: incompatible types: String"],
            ["/home/dev/2/src/main/Tax.java: cannot find symbol: variable RATE"],
            ["/home/dev/2/src/main/Tax.java: cannot find symbol: variable BASE"],
        ),
    ],
    ids=["tsc", "pytest", "jest", "go", "cargo", "eslint", "maven"],
)
def test_the_standing_names_what_is_gone_remains_and_is_new(
    outputs: tuple[str, str], sentence: str, gone: list[str], remaining: list[str], new: list[str]
) -> None:
    block = render(*outputs)
    standing = read_standing(block)
    assert standing[""][0] == sentence
    assert standing.get("Gone:", []) == gone
    assert standing.get("Remaining:", []) == remaining
    assert standing.get("New:", []) == new
    # The newest failure is told whole, although its headline is the one of the first.
    assert texts(block, "*/*/error_details")[-1] == outputs[1].strip("\n").rstrip()
    # The same again: the newest is whole, and the older one refers to it.
    block = render(*outputs, outputs[1])
    details = texts(block, "*/*/error_details")
    assert details[1:] == ["Same as attempt 3.", outputs[1].strip("\n").rstrip()]
    assert texts(block, "standing")[0].startswith("Attempt 3 failed with the same ")


def test_a_test_that_fails_with_another_message_is_named_as_such() -> None:
    standing = read_standing(render(*PYTEST))
    assert standing["Still failing, with another message:"] == [
        "tests/test_a.py::test_total: TypeError: unsupported operand"
    ]


def test_the_failing_tests_are_told_then_and_now() -> None:
    many = "".join(f"FAILED tests/test_a.py::test_{n} - assert 0\n" for n in range(12))
    few = "".join(f"FAILED tests/test_a.py::test_{n} - assert 0\n" for n in range(3))
    block = render(many + "12 failed, 3 passed", few + "3 failed, 12 passed")
    standing = read_standing(block)
    assert "Failing tests: 12 \u2192 3." in standing[""]
    assert standing["Gone:"][-1] == "and 1 more" and len(standing["Gone:"]) == 9


def test_an_error_that_was_gone_in_between_says_where_it_was() -> None:
    a, b, c = (f"src/{name}.c:3:5: error: no member {name}\n" for name in "xyz")
    standing = read_standing(render(a + b, b, a + b + c))
    assert standing["New:"] == [
        "src/x.c: error: no member x (as in attempt 1)",
        "src/z.c: error: no member z",
    ]


def test_what_was_tried_in_vain_is_told() -> None:
    """RTY-10"""
    block = render(TSC[0], TSC[0], suggested_fix="Import total <here>", tried={2: "Run npm ci"})
    assert texts(block, "standing")[0].splitlines()[1:] == [
        "A person's fix for attempt 2 was: \u201cRun npm ci\u201d, and it did not help.",
        "Attempt 1 suggested: \u201cImport total <here>\u201d. "
        "Attempt 2 was told so, and it did not help.",
    ]
    assert '<standing trust="untrusted">' in block  # it holds an agent's words
    block = render(*TSC, suggested_fix="Import total")
    assert "was told so, and 1 of 3 errors is gone." in block
    block = render(TSC[0], "src/d.ts(3,1): error TS2554: No.", suggested_fix="Import total")
    assert "was told so" not in block  # All errors are gone: it may have helped.


def test_the_hypothesis_is_asked_for_where_no_error_is_gone() -> None:
    first, second = TSC
    assert "state a hypothesis" in render(first, first + "src/e.ts(1,1): error TS1: No.")
    assert "state a hypothesis" not in render(first, second)


def test_a_plain_assertion_has_no_known_error() -> None:
    """RTY-18"""
    assert "<known" not in render("FAILED tests/test_a.py::test_b - assert 3 == 4\n1 failed")
    assert "<known" in render("ModuleNotFoundError: No module named 'polars'")


def test_the_last_attempt_is_told_one_way_to_ask() -> None:
    """RTY-15"""
    past = History(failures=[failed(1, verification=verified(TSC[0]))])
    advice = texts(render_retry_context(past, attempt=3, max_attempts=3), "instruction")[0]
    assert "ask_human" not in advice and advice.endswith(
        "This is the last attempt: rather than guess, report status: blocked with your question, "
        "and a person answers it."
    )
