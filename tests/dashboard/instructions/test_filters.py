"""The query box: a table of what is typed and what it means."""

from dataclasses import replace
from uuid import UUID

import pytest

from dashboard.instructions.filters import InstructionQuery, parse
from dashboard.lists.facets import build_state_facets
from dashboard.lists.query_box import Values, as_id, clean, term

ID = "01a1fe8a-1bbf-798b-b797-e0023d4c4b40"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("", InstructionQuery()),
        ("agent:gemini", InstructionQuery(agent=Values(("gemini",)))),
        (
            "agent:gemini,codex -agent:coder",
            InstructionQuery(agent=Values(("gemini", "codex"), ("coder",))),
        ),
        ('agent:"a b,c"', InstructionQuery(agent=Values(("a b,c",)))),
        ("from:mara", InstructionQuery(sender=Values(("mara",)))),
        ("state:FAILED", InstructionQuery(state=Values(("failed",)))),
        ("-state:waiting", InstructionQuery(state=Values((), ("waiting",)))),
        ("urgency:urgent,again", InstructionQuery(urgency=Values(("urgent", "again")))),
        ("ack:>30s", InstructionQuery(ack_over=30)),
        ("ack:<2m ack:>500ms", InstructionQuery(ack_under=120, ack_over=0.5)),
        ("ack:>5", InstructionQuery(ack_over=5)),
        ("run tests", InstructionQuery(words=("run", "tests"))),
        ('"run tests" now', InstructionQuery(words=("run tests", "now"))),
        ("TypeError: boom http://x", InstructionQuery(words=("TypeError:", "boom", "http://x"))),
        (ID, InstructionQuery(ids=(UUID(ID),))),
        (ID.replace("-", "").upper(), InstructionQuery(ids=(UUID(ID),))),
        ("a\x00b\ud800 c", InstructionQuery(words=("a", "b", "c"))),
        ('agent: "', InstructionQuery(words=("agent:", '"'))),
    ],
)
def test_parse(text: str, means: InstructionQuery) -> None:
    found = parse(text)
    assert found.problems == ()
    assert found == replace(means, text=found.text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("state:foo", "Unknown state “foo”. Use one of: waiting, queued,"),
        ("urgency:loud agent:x", "Unknown urgency “loud”. Use one of: first, again, important"),
        ("ack:soon", "“ack:soon” is not a duration. Try ack:>30s or ack:<2m."),
        ("a b c d e f g h i", "Only the first 8 words are searched."),
    ],
)
def test_problems(text: str, said: str) -> None:
    assert parse(text).problems[0].startswith(said)


@pytest.mark.parametrize(
    "text", ["\x00" * 9, "(" * 999, "-:-:,,:\"'%_\\", "agent:,,,", "ack:>99999999999s"]
)
def test_any_text_parses(text: str) -> None:
    assert len(parse(text).text) <= 300


def test_the_states_above_the_list_replace_the_state_only() -> None:
    query = parse('agent:"a b" state:failed -state:queued word')
    labels = {"all": "All", "waiting": "Waiting", "failed": "Gave up"}
    counts = {"all": 3, "waiting": 2, "failed": 1}
    facets = build_state_facets(labels, counts, query.one_state, query)
    assert [(each.label, each.query, each.count, each.current) for each in facets] == [
        ("All", 'agent:"a b" word', 3, False),
        ("Waiting", 'agent:"a b" word state:waiting', 2, False),
        ("Gave up", 'agent:"a b" word state:failed', 1, False),
    ]
    failed = parse("state:failed")
    current = [each.current for each in build_state_facets(labels, counts, "failed", failed)]
    assert (failed.one_state, current) == ("failed", [False, False, True])
    assert parse("x").one_state == "all"
    assert query.stateless() == InstructionQuery(agent=Values(("a b",)), words=("word",))


def test_term_parses_back() -> None:
    for name in ("gemini", "two words", "a,b"):
        assert parse(term("agent", name)).agent.wanted == (name,)


def test_words_that_are_not_ids() -> None:
    assert as_id("deadbeef") is None
    assert as_id("z" * 36) is None
    assert clean("  a \n b\t") == "a b"
