"""Every regular expression reads every text in time that grows with its length (SEC-1, SEC-12).

`re` holds the interpreter's lock while it searches, so one slow pattern stops all other requests of
its process. A pattern that no text from outside reaches, or only a short one, says so in a comment
at its home: "reads no text from outside", "reads at most LINE_LENGTH characters".
"""

import re
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

from tests.hostile_texts import HostileText, build_texts
from tests.pattern_uses import FOLDERS, PatternUse, find_built_patterns, find_patterns

# Each length is tried only if a quarter of it took less than this.
LENGTHS = (64, 256, 1_024, 4_096)
SUSPECT_S = 0.001_5
# Four times the text takes four times as long, or sixteen times where the time is quadratic.
MOST_GROWTH = 9
TRIES = 4
# A pattern that reads short texts may take this many times as long for each character as a simple
# search does, since there may be many of them.
MOST_OF_SHORT = 1_000
CHEAP_S = 0.000_001  # for each character; not compared
SIMPLE = re.compile(r"\w!")
# The patterns that are built where they are used, and one that stands for each of them.
BUILT = {
    "ledger.people.browsers": re.compile(r"\b(Headless)?(Chrome|CriOS)/"),
    "dashboard.templatetags.tenfour": re.compile(r"((?<!\w)(?:a|bb))", re.I),
    "retries.notifications.services.kinds": re.compile(r"\A(?:([^/:@]+):([^/:@]+)@)?([^/:@]+)\Z"),
    "retries.notifications.services.slack_posts": re.compile(r'"ts"\s*:\s*"([^"\\]+)"'),
    "tenfour.commands.terminal": re.compile(r"(?<![\w/])/a/b(?![\w/])"),
}


def act(pattern: re.Pattern[Any], use: str) -> Callable[[Any], object]:
    """Return a function that uses a pattern as the code does."""
    method = getattr(pattern, use)
    if use in ("sub", "subn"):
        return lambda text: method(lambda match: text[:0], text)
    if use == "finditer":
        return lambda text: sum(1 for _ in method(text))
    called: Callable[[Any], object] = method
    return called


def measure(call: Callable[[Any], object], text: Any, tries: int = 1) -> float:
    """Return the shortest processor time of some calls."""
    times = []
    for _ in range(tries):
        start = process_time()
        call(text)
        times.append(process_time() - start)
    return min(times)


def find_slow(
    pattern: re.Pattern[Any], uses: set[str], most: int | None = None
) -> tuple[str, HostileText] | None:
    """Return a use and a text that take too long, or None."""
    is_bytes = isinstance(pattern.pattern, bytes)
    source = pattern.pattern.decode("latin-1") if is_bytes else pattern.pattern
    flags = pattern.flags | (re.ASCII if is_bytes else 0)
    for use in sorted(uses):
        call = act(pattern, use)
        for hostile in build_texts(source, flags):

            def build(length: int, hostile: HostileText = hostile) -> Any:
                text = hostile.build(length)
                return text.encode("utf-8", "surrogatepass") if is_bytes else text

            slow = costs_much(call, build, most) if most else grows(call, build)
            if slow:
                return use, hostile
    return None


def grows(call: Callable[[Any], object], build: Callable[[int], Any]) -> bool:
    """Return whether four times the text takes far more than four times as long."""
    for length in LENGTHS:
        spent = measure(call, build(length))
        if spent > SUSPECT_S * length / LENGTHS[-1]:
            for _ in range(TRIES):
                short, long = build(length), build(4 * length)
                spent = measure(call, short, TRIES)
                if spent <= SUSPECT_S * length / LENGTHS[-1]:
                    break
                if measure(call, long, 2 if spent < 0.01 else 1) <= MOST_GROWTH * spent:
                    break
            else:
                return True
    return False


def costs_much(call: Callable[[Any], object], build: Callable[[int], Any], most: int) -> bool:
    """Return whether the longest text that is read costs far more than a simple search in it."""
    for length in (*(each for each in LENGTHS if each < most), most):
        text = build(length)
        if measure(call, text) > CHEAP_S * length:
            for _ in range(TRIES):
                simple = measure(SIMPLE.search, "ab" * 4_096, TRIES) / 8_192
                if measure(call, text) <= MOST_OF_SHORT * simple * length:
                    break
            else:
                return True
    return False


@pytest.mark.parametrize("package", FOLDERS)
def test_every_pattern_takes_linear_time_as_it_is_used(package: str) -> None:
    patterns = find_patterns(package)
    assert patterns
    slow = {
        ", ".join(each.homes): (each.pattern.pattern, *found)
        for each in patterns
        if not each.is_inside
        # one that is reached through a value, not by name, is searched
        and (found := find_slow(each.pattern, each.uses or {"search"}, each.most))
    }
    assert not slow, "\n".join(f"{home}: {what}" for home, what in slow.items())


@pytest.mark.parametrize("package", FOLDERS)
def test_a_pattern_that_is_built_where_it_is_used_is_tried_by_an_example(package: str) -> None:
    for module in find_built_patterns(package):
        assert find_slow(BUILT[module], {"search"}) is None


@pytest.mark.parametrize(
    ("pattern", "use"),
    [
        (r"\s*\d*>&\d", "sub"),
        (r"[\w+/=.-]{16,}$", "sub"),
        (r"<(name|pros)>(.*?)</\1>", "findall"),
        (r"(\\*)<", "search"),
        (r"^[ \t]*([^\]\n]+?)[ \t]*$", "match"),
    ],
)
def test_a_slow_pattern_is_found(pattern: str, use: str) -> None:
    assert find_slow(re.compile(pattern), {use})


def test_a_slow_pattern_is_slow_for_short_texts_too() -> None:
    assert find_slow(re.compile(r"[\w+/=.-]{16,}$"), {"sub"}, most=2_660)
    assert find_slow(re.compile(r"[a-z]{3,20}$"), {"sub"}, most=2_660) is None


def test_all_patterns_are_found() -> None:
    """Those of modules, of tables, of functions, and of calls that name none."""
    found: list[PatternUse] = [each for package in FOLDERS for each in find_patterns(package)]
    homes = " ".join(home for each in found for home in each.homes)
    assert len(found) > 200
    for known in (
        "retries.agent_hooks.events",
        "retries.failures.known_errors.KNOWN_ERRORS[3].pattern",
        "retries.failures.fingerprints.mask_line.",
        "ledger.secrets.forms.BY_FORM[",
        "tenfour.setup.agent_doctor, line ",
    ):
        assert known in homes, known
