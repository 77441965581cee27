"""No line does more than its allow rules let through; a real bash is the judge.

`list_smuggled_lines` builds lines that hide a second command or an effect outside of the folder in
what a rule allows. What is allowed, of good lines and of lines with random changes, is run by bash
with stand-ins for all programs, and starts just the commands that the rules name.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from retries.permissions.calls import ToolCall
from retries.permissions.command_lines import read_line
from retries.permissions.matchers import Verdict, check_matcher, decide, matches, propose
from tests.retries.permissions.bash_oracle import BASH, BashOracle, Ran
from tests.retries.permissions.smuggled_lines import (
    FOLDER,
    PAYLOADS,
    RULES,
    AllowRule,
    list_smuggled_lines,
)

ALLOWED = [("Bash", rule.matcher) for rule in RULES]
MOST = int(os.environ.get("TENFOUR_SMUGGLED_LINES", "24000"))
PROGRAMS = {
    *(rule.program for rule in RULES),
    *(payload.partition(" ")[0] for payload in PAYLOADS),
    *("sh", "bash", "env", "sudo", "xargs", "tee", "nohup", "timeout", "python3", "a", "b", "x"),
}
# What bash runs by itself leaves no line in the log.
BUILTINS = {"cd", "pushd"}
needs_bash = pytest.mark.skipif(not Path(BASH).exists(), reason="no bash")


def call(line: str) -> ToolCall:
    return ToolCall("Bash", {"command": line}, FOLDER)


def is_allowed(line: str) -> bool:
    return decide(ALLOWED, [], call(line)).verdict == Verdict.ALLOW


@pytest.fixture
def oracle(tmp_path: Path) -> BashOracle:
    return BashOracle(tmp_path, PROGRAMS)


def find_foreign(ran: Ran, line: str) -> list[tuple[str, ...]]:
    """Return what bash started that the reader did not read in the line."""
    known = [tuple(word.text for word in each.words) for each in read_line(line)]
    known = [(words[0].rpartition("/")[2], *words[1:]) for words in known]
    return [words for words in ran.commands if words not in known]


# ---- 0 of 20,000


def test_no_smuggled_line_is_allowed_by_any_rule() -> None:
    lines = list_smuggled_lines()
    assert len(lines) > 80_000 and MOST >= 20_000
    assert {rule for rule, _ in lines[:MOST]} == set(RULES)
    passed = [(rule.matcher, line) for rule, line in lines[:MOST] if is_allowed(line)]
    assert passed == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.matcher)
def test_the_line_of_a_rule_is_allowed(rule: AllowRule) -> None:
    check_matcher("Bash", rule.matcher, allow=True)
    assert matches("Bash", rule.matcher, call(rule.line), allow=True)


@needs_bash
def test_smuggled_lines_do_more_where_bash_runs_them(oracle: BashOracle) -> None:
    """The generator is worth its name: bash does start other programs with such lines."""
    lines = [line for _, line in list_smuggled_lines() if is_harmless(line)][:150]
    known = {rule.program.rpartition("/")[2] for rule in RULES}
    did_more = 0
    for line in lines:
        ran = oracle.run(line)
        started = {words[0] for words in ran.commands}
        did_more += bool(started - known or ran.files)
    assert did_more > len(lines) * 0.4


def is_harmless(line: str) -> bool:
    """Return whether a line with a payload names no path outside, and ends by itself."""
    words = ("/", "..", "~", "$HOME", "exec", "\0", "while", "until", "for", "trap", "rm ")
    is_smuggling = any(payload in line for payload in PAYLOADS)
    return is_smuggling and line.isascii() and not any(word in line for word in words)


# ---- what is allowed does what the rules say


def list_good_lines(count: int, seed: int = 3) -> Iterator[str]:
    """Yield lines of commands that the rules allow, joined and written in many ways."""
    chance = random.Random(seed)
    alone = [rule.line for rule in RULES if not rule.line.startswith("cd")]
    for _ in range(count):
        parts = [vary(chance.choice(alone), chance) for _ in range(chance.choice((1, 1, 2, 3)))]
        joint = chance.choice((";", "; ", " && ", " || ", "\n", "\n\n", "&&", " ;\n"))
        line = joint.join(parts)
        if chance.random() < 0.2:
            line += chance.choice((" | tail -20 log.txt", "|cat src", " 2>&1 | grep -rn a"))
        yield (
            chance.choice(("", "", "# run it\n")) + line + chance.choice(("", "", " # done", "\n"))
        )


def vary(line: str, chance: random.Random) -> str:
    words = line.split(" ")
    if "'" not in line and len(words) > 1 and chance.random() < 0.3:
        at = chance.randrange(1, len(words))
        quote = chance.choice("'\"")
        words[at] = f"{quote}{words[at]}{quote}"
    line = chance.choice((" ", " ", "  ")).join(words)
    return line + chance.choice(
        ("", "", " 2>&1", " >/dev/null", " 2> /dev/null", " >/dev/null 2>&1")
    )


@needs_bash
def test_good_lines_run_just_the_commands_of_their_rules(oracle: BashOracle) -> None:
    allowed = 0
    for line in list_good_lines(250):
        if not is_allowed(line):
            continue
        allowed += 1
        ran = oracle.run(line)
        assert find_foreign(ran, line) == [] and ran.files == set(), line
        if "||" not in line:
            started = [each for each in read_line(line) if each.program not in BUILTINS]
            assert len(ran.commands) == len(started), line
    assert allowed > 150


NASTY = (
    *"""'"\\`$&|;<>(){}[]*?!#~^=%@,+-:. """,
    *("\n", "\t", "\r", "\x00", "\x1b", "\u00a0", "\u200b", "\u202e", "\ufeff", "\u0430", "\u2028"),
    *(
        "$(",
        "${",
        "&&",
        "||",
        "|&",
        ";;",
        "<<",
        "<<<",
        ">>",
        "2>",
        "&>",
        "$'",
        '$"',
        "\\\n",
        "a=b ",
    ),
    *(" evil", "evil ", ";evil", "|evil", "\nevil", "&evil", "`evil`", "$(evil)", " -x", " --x=y"),
    *("''", '""', "' '", " # ", " #\n", " 2>&1", ">/dev/null", " >x", " <x", " 3>&1", "{a,b}", "!"),
)


def change(line: str, chance: random.Random) -> str:
    """Return a line with one to three characters added, doubled, moved, or left out."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        at, until = sorted((chance.randrange(len(line) + 1), chance.randrange(len(line) + 1)))
        kind = chance.random()
        if kind < 0.7:
            line = line[:at] + chance.choice(NASTY) + line[at:]
        elif kind < 0.85:
            line = line[:at] + line[at + 1 :]
        else:
            line = line[:at] + line[at:until] + line[at:]
    return line


@needs_bash
def test_changed_lines_that_are_allowed_run_just_what_is_read(oracle: BashOracle) -> None:
    chance = random.Random(11)
    good = [rule.line for rule in RULES] + list(list_good_lines(100))
    changed = {change(chance.choice(good), chance) for _ in range(6_000)}
    allowed = sorted(line for line in changed if is_allowed(line))
    assert 150 < len(allowed) < 0.5 * len(changed)
    for line in allowed[:: max(1, len(allowed) // 300)]:
        ran = oracle.run(line)
        assert find_foreign(ran, line) == [] and ran.files == set(), line


@needs_bash
def test_changed_lines_that_are_read_run_just_what_is_read(oracle: BashOracle) -> None:
    """The reader holds without the rules: what it reads is what bash starts, word by word."""
    chance = random.Random(13)
    good = [
        *("a b 'c d' \"e f\" --x='y z' HEAD~1 u^ a:b @x %y", "a --x=1 5 -3 +x 1.5 :x ,y", "a;b;x"),
        *(
            "a 1 2>&1|b && x || a # c",
            "a 'x' \"\" '' b\nb 2 >/dev/null\nx",
            "a -- -x=y a=b 'é' \"ü\"",
        ),
    ]
    checked = 0
    for line in sorted({change(chance.choice(good), chance) for _ in range(1_500)}):
        try:
            commands = read_line(line)
        except ValueError:
            continue
        if any(word.is_pattern for each in commands for word in each.words):
            continue
        ran = oracle.run(line)
        assert find_foreign(ran, line) == [] and ran.files == set(), line
        checked += 1
    assert checked > 200


# ---- proposals


def test_what_a_call_proposes_allows_it() -> None:
    chance = random.Random(5)
    good = [*(rule.line for rule in RULES), *list_good_lines(200)]
    proposed = 0
    for line in (*good, *(change(chance.choice(good), chance) for _ in range(4_000))):
        if (matcher := propose(call(line))) is not None:
            proposed += 1
            check_matcher("Bash", matcher, allow=True)
            assert matches("Bash", matcher, call(line), allow=True)
            assert propose(call(matcher)) == matcher
    assert proposed > 400
