"""Which shell lines are read strictly, and what the loose reader finds in the others."""

import random
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retries.permissions.command_lines import UnreadableLine, join_commands, read_line
from retries.permissions.loose_commands import find_commands
from retries.permissions.shell_grammar import LINE_LENGTH


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("npm test", "npm test"),
        ("npm  ci&&npm test", "npm ci && npm test"),
        ("a;b\n\nc || d | e", "a; b; c || d | e"),
        ("npm test 2>&1 | tail -20", "npm test | tail -20"),
        ("make >/dev/null 2>&1; x 2> /dev/null", "make; x"),
        (
            "git commit -m \"it's done\" --author='a b'",
            "git commit -m \"it's done\" '--author=a b'",
        ),
        ("git diff HEAD~1 -- 'src' \"docs\"", "git diff HEAD~1 -- src docs"),
        ("# first\nnpm ci # all\n", "npm ci"),
        ("ls src/*.py '*'", "ls src/*.py '*'"),
        ("echo 'ü' \"\" 'a\\b' '$x'", "echo 'ü' '' 'a\\b' '$x'"),
        ("a &&\nb", "a && b"),
        ("x --a= 5 -3 @y %z ,", "x --a= 5 -3 @y %z ,"),
    ],
)
def test_a_plain_line_is_read(line: str, commands: str) -> None:
    assert join_commands(read_line(line)) == commands
    assert join_commands(read_line(commands)) == commands


# fmt: off
@pytest.mark.parametrize(
    "line",
    [
        *("", " ", "\n", "# only a comment", ";", "&& a", "a &&", "a |", "a ;; b", "a & b", "a &"),
        *("a $x", "a ${x}", "a $(b)", "a `b`", "a <(b)", 'a "$x"', 'a "`b`"', 'a "\\n"', 'a "!b"'),
        *("a ~", "a ~/b", "a x=~/b", "a b:~/c", "a {b,c}", "a {1..2}", "a \\b", "a\\\nb", "a !b", "! a"),
        *("a > b", "a >b", "a >> b", "a < b", "a <<E\nE", "a <<< b", "a &> b", "a &>/dev/null", "a >&3"),
        *("a >/dev/null b", "> /dev/null a", "2>&1", "a 3>&1", "a >/dev/nullx", "a >/dev/null/../b"),
        *("A=1 a", "A=1", "A+=1 a", "a() { b; }", "function a { b; }", "(a)", "{ a; }", "if a; then b; fi"),
        *("while a; do b; done", "[[ a ]]", "[ a ]", "((a))", "time a", "coproc a", "case a in esac"),
        *("repeat 2 a", "foreach x (a) b; end", "noglob a", "'a' b", '"a" b', "a'b'", "a b'c'", "=a", "-a"),
        *("a =b", "a\tb", "a\rb", "a\r\nb", "a\x00b", "a\x0bb", "a\u00a0b", "a 'b\u200b'", "a '\u202eb'"),
        *("a 'b\nc'", 'a "b\nc"', "a 'b", 'a "b', "a#b", "a #b;c", "a #'", "a #b\\\nc", "a;#b", "\u0430 b"),
        *("export A=1", "declare -x A", "unset A", "local a", "readonly a", "a b^ ^c", "a ^b", "a |& b"),
        *("a b)", "a (b", "a }", "a {", "a $'b'", 'a $"b"', "a\x1b[8m", "a 'b\ud800'", "a b\ufeff"),
    ],
)
def test_any_other_line_is_unreadable(line: str) -> None:
    with pytest.raises(UnreadableLine):
        read_line(line)
# fmt: on


def test_a_line_with_too_many_commands_is_unreadable() -> None:
    assert len(read_line("a;" * 50)) == 50
    for line in ("a;" * 51, "a " * LINE_LENGTH, "a|" * 500 + "a"):
        with pytest.raises(UnreadableLine):
            read_line(line)


# fmt: off
@pytest.mark.parametrize(
    "line",
    [
        *("rm x", "sudo rm x", "A=1 timeout -k 5 9 rm x", "a; (rm x)", "{ rm x; }", "! rm x", "a & rm x"),
        *("if a; then rm x; fi", "for i in a; do rm x; done", "f() { rm x; }; f", "case a in a) rm x;; esac"),
        *("a $(rm x)", 'a "$(rm x)"', "a `rm x`", "a <(rm x)", "A=$(rm x)", 'a "b `rm x` c"', "a | xargs rm x"),
        *("bash -c 'a; rm x'", "eval rm x", "eval 'rm x'", "env -S 'rm x'", "ssh host 'a && rm x'"),
        *("find . -exec rm x ;", "r\\m x", "r''m x", "'rm' x", "rm \\\n x", "2>/dev/null rm x", ">y rm x"),
        *("a <<E\n$(rm x)\nE", "bash <<E\nrm x\nE", "a <<< y; rm x", "a 'b\n'; rm x", "rm x #; a", "a\trm; rm x"),
        *("su -c 'rm x'", 'sudo sh -c "a; $(rm x)"', "docker run i rm x", "git rebase -x 'rm x' y"),
    ],
)
def test_the_loose_reader_finds_a_command_wherever_it_stands(line: str) -> None:
    found = [[word.text for word in each.words] for each in find_commands(line)]
    assert any(words[:2] == ["rm", "x"] for words in found), found
# fmt: on


# fmt: off
@pytest.mark.parametrize("line", ["echo rm x", "echo 'a; rm x'", "cat <<E\nrm x\nE", "a # rm x"])
def test_the_loose_reader_leaves_texts_alone(line: str) -> None:
    assert all(each.program != "rm" for each in find_commands(line))


# ---- any text


NASTY = "ab '\"\\`$(){}[]<>|&;\n\t#=!~*?-\x00é\u200b\ud800"


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from(NASTY), max_size=60) | st.text(max_size=60))
def test_any_text_is_read_or_refused(line: str) -> None:
    for each in find_commands(line):
        assert each.words
        assert all(0 <= word.start <= word.end <= len(line) for word in each.words)
    try:
        commands = read_line(line)
    except UnreadableLine:
        return
    assert join_commands(read_line(join_commands(commands))) == join_commands(commands)


def test_random_bytes_are_read_or_refused() -> None:
    chance = random.Random(1)
    for _ in range(500):
        line = chance.randbytes(chance.randrange(200)).decode("latin-1")
        find_commands(line)
        with pytest.raises(UnreadableLine):
            read_line(f"{line}\x01")


# ---- time


# fmt: off
PIECES = (
    *("a ", "a;", "a&&", "'a' ", '"', "'", "$(", "$(a) ", "`", "(", "{ ", "a|", "a\n", "#", "\\", "<<a\n"),
    *("sudo ", "bash -c 'a; b' ", "eval 'a b' ", "=", "a=", "-", "~a", "* ", ">/dev/null ", "2>&1|a "),
    *("cat <<E\n$(a)\nE\n", "xargs ", "\u00e9", "'$(a)' ", "<(", "${", "find a "),
)
# fmt: on
# fmt: on


def measure(piece: str, length: int) -> float:
    line = (piece * length)[:length]
    best = 1.0
    for _ in range(3):
        start = time.process_time()
        find_commands(line)
        with suppress(UnreadableLine):
            read_line(line)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("piece", PIECES)
def test_time_grows_with_the_line(piece: str) -> None:
    short, long = measure(piece, 4_000), measure(piece, 16_000)
    assert long < 0.02 or long < 9 * short, (short, long)
