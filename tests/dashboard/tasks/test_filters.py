"""The query box of Tasks."""

import pytest
from django.test import Client

from dashboard.query_box import Values
from dashboard.tasks.filters import TaskQuery, parse
from tests.dashboard.seen import words

pytestmark = pytest.mark.django_db


URL = "/tasks/"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("", TaskQuery()),
        ("agent:coder state:retry", TaskQuery(agent=Values(("coder",)), state=Values(("retry",)))),
        ("type:code,test -type:x", TaskQuery(type=Values(("code", "test"), ("x",)))),
        ("state:NEEDS-YOU", TaskQuery(state=Values(("needs-you",)))),
        ("error:timeout", TaskQuery(error=Values(("timeout",)))),
        ("attempts:>1 attempts:<4", TaskQuery(attempts_over=1, attempts_under=4)),
        ("reason:breaker_open", TaskQuery(reason=Values(("breaker_open",)))),
        ("some words", TaskQuery(words=("some", "words"))),
    ],
)
def test_parse(text: str, means: TaskQuery) -> None:
    found = parse(text)
    assert found.problems == ()
    names = [name for name in TaskQuery.__slots__ if name != "text"]
    assert all(getattr(found, name) == getattr(means, name) for name in names)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("state:foo", "Unknown state “foo”. Use one of: needs-you, queued,"),
        ("attempts:many", "“attempts:many” is not a number"),
        ("a b c d e f g h i", "Only the first 8 words are searched."),
    ],
)
def test_problems(text: str, problem: str, browser: Client) -> None:
    assert parse(text).problems[0].startswith(problem)
    assert problem in words(browser.get(URL, {"q": text}))
