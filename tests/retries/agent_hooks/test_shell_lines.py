"""The commands of real agents' shell lines, and the exit codes that a whole line leaves known."""

import time

import pytest

from bench.shell_lines import LINES, measure, read_labeled
from retries.agent_hooks.shell_lines import read_commands
from retries.permissions.shell_grammar import LINE_LENGTH

TEST = "make test"


@pytest.mark.parametrize(
    "line",
    [
        "make test",
        "make test > out.txt 2>&1",
        "make test &> out.txt",
        "2>&1 make test",
        "make test < /dev/null",
        "timeout 300 make test",
        "timeout -k 5 --signal=TERM 5m make test",
        "time make test",
        "nice -n 10 make test",
        "nohup make test",
        "sudo -u app make test",
        "sudo -E env CI=1 make test",
        "env -u HOME CI=1 make test",
        "/usr/bin/env CI=1 make test",
        "stdbuf -oL make test",
        "CI=1 DEBUG= make  test",
        "make \\\n  test",
        "cd app && make test",
        "cd app; make test",
        "export CI=1 && cd app && make test",
        "(cd app && make test)",
        "{ cd app; make test; }",
        "bash -lc 'cd app && make test'",
        'bash -c "make test"',
        'sh -ec "CI=1 make test 2>&1"',
        "bash -o pipefail -c 'make test | tail -5'",
        "set -o pipefail; make test | tail -5",
        "set -euo pipefail\nmake test 2>&1 | tee log",
        "make test # the whole suite",
        "cat > a.txt <<EOF && make test\nmake lint\nEOF",
    ],
)
def test_a_command_that_passed_is_known_to_have_passed(line: str) -> None:
    found = {each.line: each.exit_code for each in read_commands(line, 0)}
    assert found.get(TEST) == 0
    assert "make lint" not in found


@pytest.mark.parametrize(
    "line",
    [
        "make test &",
        "make test & wait",
        "make test || true",
        "make test || make test",
        "make lint || make test",
        "make test | tail -5",
        "make test |& tee log",
        "make test; echo done",
        "make test\ngit status",
        "! make test",
        "for i in 1 2 3; do make test; done",
        "while make test; do sleep 1; done",
        "if make test; then echo yes; fi",
        'echo "$(make test)"',
        "result=$(make test)",
        "diff <(make test) expected",
        "nohup make test > log 2>&1 &",
        "bash -c 'make test; exit 0'",
    ],
)
def test_a_command_whose_exit_code_the_line_hides_has_none(line: str) -> None:
    """A line that ends with 0 proves nothing about these."""
    found = [each.exit_code for each in read_commands(line, 0) if each.line == TEST]
    assert found and set(found) == {None}


@pytest.mark.parametrize(
    "line",
    [
        "cat > GUIDE.md <<'EOF'\nRun this:\nmake test\nEOF",
        "cat <<-EOF\n\tmake test\n\tEOF",
        'git commit -m "make test"',
        "git commit -m \"$(cat <<'EOF'\nmake test\nEOF\n)\"",
        "echo make test",
        "# make test",
        "grep 'make test' README.md",
        "python3 - <<'PY'\nmake test\nPY",
        "f() { make test; }",
        "case $x in a) make test;; esac",
        "[ -f Makefile ] || exit; if false; then make test; fi",
        "command -v make test",
        "echo 'it''s; make test",
    ],
)
def test_a_text_is_no_command(line: str) -> None:
    """F11: what a here-document, a string or a branch that need not run contains."""
    assert TEST not in [each.line for each in read_commands(line, 0)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("make test", 2),
        ("cd app && make test", 2),
        ("timeout 9 make test > log", 2),
        ("make lint; make test", 2),
        ("make lint || make test", 2),
        # Either of them may have failed.
        ("make lint && make test", None),
        ("set -o pipefail; make test | tail", None),
    ],
)
def test_a_failure_belongs_to_the_command_that_surely_failed(
    line: str, expected: int | None
) -> None:
    found = {each.line: each.exit_code for each in read_commands(line, 2)}
    assert found[TEST] == expected


@pytest.mark.parametrize(
    "part",
    ["(", "$(", "'", '"', "`", "{ ", "<<a\n", "a ", "a|", "a&&", "<(", "[[", "a;", "$", "=("],
)
def test_a_hostile_line_is_read_in_time_that_its_length_bounds(part: str) -> None:
    """SEC-1: the longest line that is read, of each part that is hard for a parser."""
    line = part * (LINE_LENGTH // len(part))
    began = time.process_time()
    read_commands(line, 0)
    assert time.process_time() - began < 5  # 0.1 s alone; without bounds it is minutes


def test_a_line_that_is_too_long_has_no_commands() -> None:
    assert read_commands("make test;" * 2000, 0) == []


def test_labeled_lines_are_read_as_a_person_reads_them() -> None:
    """AGT-9, AGT-10: no command is invented, and hardly one is missed."""
    found = measure([*read_labeled(LINES.read_text())])
    assert found.lines >= 300
    assert (found.precision, found.code_precision) == (1, 1), found.wrong
    assert found.recall >= 0.98 and found.code_recall >= 0.97, found
