"""Which line of an output tells the cause."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retries.failures.outputs.long_lines import break_long_lines
from retries.failures.outputs.salience import BETWEEN_TEXTS, find_headline, rank_lines, rank_texts
from retries.failures.outputs.salience_rules import SETTING

TRACE = """Traceback (most recent call last):
  File "/srv/app/run.py", line 3, in <module>
    raise ValueError("no: really")
KeyError: 'user_id'
"""
CHAIN = (
    TRACE
    + """
The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/app/main.py", line 9, in <module>
    main()
app.errors.BadOrder: order 7 has no user
"""
)
JAVA = """Exception in thread "main" java.lang.RuntimeException: failed
\tat a.B.c(B.java:3)
Caused by: java.lang.IllegalStateException: no pool
\tat b.C.d(C.java:8)
Caused by: java.net.ConnectException: Connection refused
\tat d.E.f(E.java:4)
"""
PYTEST = """..F
=================================== FAILURES ===================================
__________________________________ test_total __________________________________
>       assert order.total == 30
E       assert 27 == 30
E        +  where 27 = Order(lines=3).total
----------------------------- Captured log call --------------------------------
ERROR    shop:order.py:9 could not load the discount: timed out
=========================== short test summary info ============================
FAILED tests/test_order.py::test_total - assert 27 == 30
1 failed, 2 passed in 0.05s
"""
JEST = """FAIL src/order.test.js
  \u25cf order \u203a totals

    expect(received).toBe(expected) // Object.is equality

    Expected: 30
    Received: 27

Tests:       1 failed, 1 total
"""
RUST = """running 1 test
---- adds stdout ----
thread 'adds' (12) panicked at src/main.rs:4:20:
index out of bounds: the len is 3 but the index is 7
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
test result: FAILED. 0 passed; 1 failed
error: test failed, to rerun pass `--bin app`
"""
VITE = """error during build:
Could not resolve "./components/Buton" from "src/App.tsx"
file: /builds/web/src/App.tsx
"""
GRADLE = """* What went wrong:
Execution failed for task ':compileJava'.
> Could not resolve all files for configuration ':compileClasspath'.
   > Could not resolve com.acme:lib:1.2.
"""
RUBY = """app.rb:3:in `price': undefined method `amount' for nil:NilClass (NoMethodError)
\tfrom app.rb:7:in `<main>'
"""
TYPESCRIPT = """TSError: Unable to compile TypeScript:
src/a.ts:3:7 - error TS2551: Property 'lenght' does not exist on type 'string'.
"""
ESLINT = """/src/app.js
  3:7   warning  'x' is never used    no-unused-vars
  12:5  error    'foo' is not defined  no-undef

\u2716 2 problems (1 error, 1 warning)
"""


@pytest.mark.parametrize(
    ("texts", "headline"),
    [
        ((TRACE,), "KeyError: 'user_id'"),
        ((CHAIN,), "app.errors.BadOrder: order 7 has no user"),
        ((JAVA,), "java.net.ConnectException: Connection refused"),
        ((PYTEST,), "assert 27 == 30"),
        ((JEST,), "expect(received).toBe(expected)"),
        ((RUST,), "index out of bounds: the len is 3 but the index is 7"),
        ((VITE,), 'Could not resolve "./components/Buton" from "src/App.tsx"'),
        ((GRADLE,), "Could not resolve com.acme:lib:1.2."),
        ((RUBY,), "app.rb:3:in `price': undefined method `amount'"),
        ((TYPESCRIPT,), "src/a.ts:3:7 - error TS2551: Property 'lenght' does not"),
        ((ESLINT,), "12:5  error    'foo' is not defined"),
        (("FAIL a.test.ts\nTypeError: x is null", "npm test returned exit code 1"), "TypeError"),
        (("npm test returned exit code 1\n1 passed, 2 failed",), "npm test returned"),
        (("It ended badly",), "It ended badly"),
        (("\x1b[31merror\x1b[0m: no such table: orders",), "error: no such table"),
        (("web-1  | 2026-11-22T10:00:00Z ERROR cannot connect",), "ERROR cannot connect"),
        (("", "  \n"), ""),
    ],
)
def test_the_headline_is_the_line_that_tells_the_cause(
    texts: tuple[str, ...], headline: str
) -> None:
    found = str(find_headline(*texts))
    assert found.startswith(headline) if headline else found == ""


def test_a_retry_context_that_the_agent_printed_tells_nothing() -> None:
    told = (
        "<retry_context attempt=\"2\">\nModuleNotFoundError: No module named 'x'</error_details>\n"
    )
    output = told + "</retry_context>\nsrc/a.ts(3,1): error TS2304: Cannot find name 'y'."
    assert find_headline(output).cause == "src/a.ts(3,1): error TS2304: Cannot find name 'y'."
    # A start without an end is a line of the output like others.
    assert find_headline(told).cause.startswith("ModuleNotFoundError")


def test_compared_values_belong_to_the_headline() -> None:
    assert find_headline(JEST).values == ("Expected: 30", "Received: 27")


@pytest.mark.parametrize(
    "filler",
    [
        "tests/test_errors.py::test_error_{} PASSED [ 7%]",
        "   Compiling thiserror v1.0.{}",
        "gcc -Werror=format -Wno-error=unused -c src/error{}.c",
        "2026-11-22T10:00:00Z INFO processed job {} errors=0",
        "npm warn deprecated glob@7.{}: no longer supported",
        "{} errors were fixed before; 0 errors now",
        "fail_on_error = true  # {}",
        "=== RUN   TestFailure{}",
    ],
)
def test_names_and_counts_are_no_errors(filler: str) -> None:
    lines = [filler.format(n) + "x" * (n % 7) for n in range(6000)]
    lines.insert(3000, "src/a.c:3:5: error: no member x")
    assert find_headline("\n".join(lines)).cause == "src/a.c:3:5: error: no member x"


@pytest.mark.parametrize(
    "part",
    [
        "x",
        "error ",
        "fail_",
        ":",
        " ",
        "E  ",
        "a.c:1:",
        "'",
        "\n",
        "error: x\n",
        "Caused by: ",
        "at ",
    ],
)
def test_every_text_is_fast(part: str) -> None:
    """In time proportional to the text: a mebibyte of anything."""
    text = part * (1_048_576 // len(part))
    start = time.process_time()
    rank_lines(text)
    assert time.process_time() - start < 1


@settings(deadline=None)
@given(st.text(max_size=2000))
def test_any_text_has_a_headline_of_its_own_words(text: str) -> None:
    cause = find_headline(text).cause
    assert cause in text or "\x1b" in text
    assert bool(cause) == bool(text.strip()) or not text.isprintable() or "E" in text


def test_lines_of_joined_texts_count_on_from_one_text_to_the_next() -> None:
    """A very long line of an earlier text counts as its pieces, as in the joined text."""
    texts = ["step one; " * 300 + "\nerror: disk full", "ok\nerror: no route", "E   assert 3 == 4"]
    lines = break_long_lines(BETWEEN_TEXTS.join(texts)).split("\n")
    ranked = rank_texts(texts)
    told = ["assert 3 == 4", "error: disk full", "error: no route"]
    assert [line.text for line in ranked[:3]] == told
    assert all(line.text in lines[line.number] for line in ranked)


def test_a_line_that_an_earlier_text_repeats_is_left_out_of_the_later_one() -> None:
    ranked = rank_texts(["error: no route to 1\nerror: no route to 2", "error: no route to 3"])
    assert [line.number for line in ranked] == [0, 1]


def test_a_long_name_of_a_setting_is_read_once() -> None:
    start = time.process_time()
    assert not SETTING.match("a-" * 20_000)
    assert time.process_time() - start < 1
    assert SETTING.match("fail_on_error = true") and SETTING.match('"strict.mode": false')
