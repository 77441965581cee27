"""The query box: a table of what is typed and what it means."""

from uuid import UUID

import pytest

from dashboard.instructions.filters import Query, Values, as_id, clean, parse, term

ID = "01a1fe8a-1bbf-798b-b797-e0023d4c4b40"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("", Query()),
        ("agent:gemini", Query(agent=Values(("gemini",)))),
        ("agent:gemini,codex -agent:coder", Query(agent=Values(("gemini", "codex"), ("coder",)))),
        ('agent:"a b,c"', Query(agent=Values(("a b,c",)))),
        ("from:mara", Query(sender=Values(("mara",)))),
        ("state:FAILED", Query(state=Values(("failed",)))),
        ("-state:waiting", Query(state=Values((), ("waiting",)))),
        ("urgency:urgent,again", Query(urgency=Values(("urgent", "again")))),
        ("ack:>30s", Query(ack_over=30)),
        ("ack:<2m ack:>500ms", Query(ack_under=120, ack_over=0.5)),
        ("ack:>5", Query(ack_over=5)),
        ("run tests", Query(words=("run", "tests"))),
        ('"run tests" now', Query(words=("run tests", "now"))),
        ("TypeError: boom http://x", Query(words=("TypeError:", "boom", "http://x"))),
        (ID, Query(ids=(UUID(ID),))),
        (ID.replace("-", "").upper(), Query(ids=(UUID(ID),))),
        ("a\x00b\ud800 c", Query(words=("a", "b", "c"))),
        ('agent: "', Query(words=("agent:", '"'))),
    ],
)
def test_what_is_typed_and_what_it_means(text: str, means: Query) -> None:
    found = parse(text)
    assert found.problems == ()
    assert found == Query(
        **{name: getattr(means, name) for name in Query.__slots__} | {"text": found.text}
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("state:foo", "There is no state “foo”: it is one of waiting, queued,"),
        (
            "urgency:loud agent:x",
            "There is no urgency “loud”: it is one of first, again, important",
        ),
        ("ack:soon", "“ack:soon” is not a time: write ack:>30s or ack:<2m."),
        ("a b c d e f g h i", "Only the first 8 words are looked for."),
    ],
)
def test_nonsense_becomes_a_sentence(text: str, said: str) -> None:
    assert parse(text).problems[0].startswith(said)


@pytest.mark.parametrize(
    "text", ["\x00" * 9, "(" * 999, "-:-:,,:\"'%_\\", "agent:,,,", "ack:>99999999999s"]
)
def test_nothing_that_is_typed_breaks_it(text: str) -> None:
    assert len(parse(text).text) <= 300


def test_the_buttons_exchange_the_state_and_keep_the_rest() -> None:
    query = parse('agent:"a b" state:failed -state:queued word')
    assert query.with_state("waiting") == 'agent:"a b" word state:waiting'
    assert query.with_state("") == 'agent:"a b" word'
    assert (query.segment, parse("state:failed").segment, parse("x").segment) == (
        "",
        "failed",
        "all",
    )
    assert query.stateless() == Query(agent=Values(("a b",)), words=("word",))


def test_a_term_finds_what_it_names() -> None:
    for name in ("gemini", "two words", "a,b"):
        assert parse(term("agent", name)).one_agent == name


def test_words_that_are_no_ids() -> None:
    assert as_id("deadbeef") is None
    assert as_id("z" * 36) is None
    assert clean("  a \n b\t") == "a b"
