"""Patterns whose templates differ in one or two words are merged (S1.13)."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from ledger.journal import Stamp
from ledger.models import Agent, Event
from retries.failures import patterns
from retries.failures.stuck_tasks import stuck_tasks
from retries.failures.template_merging import TemplateTable, find_merge
from retries.models import FailurePattern, Grouped
from retries.states import PatternState
from tests.conftest import Api
from tests.elsewhere import blocked
from tests.factories import NOW, make_agent, make_project
from tests.retries.failures.test_grouping import MARA, broken
from tests.waiting import PATIENCE_S

LINE = "error: could not reserve host {} for the build"
GENERAL = LINE.format("‹word›")


def only_current() -> FailurePattern:
    return FailurePattern.objects.current().get()


def templates() -> list[str]:
    return sorted(FailurePattern.objects.current().values_list("template", flat=True))


@pytest.mark.parametrize(
    "lines",
    [
        # a class of errors, a code, a state, a verb, and a word of grammar are parts of the cause
        [f"{name}: the job in the queue broke" for name in ("KeyError", "OSError", "IOError")],
        [f"upload of report ended with {name} status" for name in ("E501", "E502", "E777")],
        [f"service call ended ({name}) for user" for name in ("NoSuchKey", "AccessDenied", "Gone")],
        [f"state of job is {name} today" for name in ("RUNNING", "KILLED", "DONE")],
        [f"the session {name} for the worker" for name in ("closed", "opened", "timed")],
        [f"file is {name} the storage area" for name in ("in", "on", "not")],
        # a label names what failed; a line of one content word says too little
        [f"{name}: no route to the build host" for name in ("curl", "wget", "ssh")],
        [f"the {name} error" for name in ("disk", "host", "job")],
        # three slots
        ["put a1x of b into cell", "put ax of bx into cellx", "put ay of by into celly"],
    ],
)
def test_words_that_tell_the_cause_are_no_slots(lines: list[str]) -> None:
    table = TemplateTable()
    for line in lines:
        table.add(line)
    assert {table.find(line) for line in lines} == set(lines)


def test_slots_have_frames_and_may_be_two() -> None:
    table = TemplateTable()
    lines = [f"volume <{a}> of tenant {b}, lost" for a, b in ("kx", "by", "cz", "dw")]
    for line in lines:
        table.add(line)
    assert {table.find(line) for line in lines} == {"volume <‹word›> of tenant ‹word›, lost"}
    names = ["total lost money for ada", "total lost money for joe"]
    assert find_merge("total lost money for zoe", names, fixed=["zoe"]) is None


@pytest.mark.django_db
def test_a_third_filler_merges_the_patterns(agent: Agent, operator: Api) -> None:
    for name in ("ada", "joe"):
        broken(agent, LINE.format(name))
    first = FailurePattern.objects.earliest("pk")
    assert len(templates()) == 2
    task = broken(agent, LINE.format("mara"))
    assert (only_current(), only_current().template) == (first, GENERAL)
    assert first.grouped.count() == 3
    # a failure of a merged template and one of a new one join it at once
    broken(agent, LINE.format("mara"))
    broken(agent, LINE.format("zoe"))
    assert only_current().grouped.count() == 5
    # the signatures still tell the fillers apart
    assert Grouped.objects.values("signature").distinct().count() == 4
    event = Event.objects.get(kind="pattern.merged")
    assert (event.subject_id, event.data["template"]) == (first.pk, GENERAL)
    assert len(event.data["patterns"]) == 2
    # every id of a merged pattern still answers, and says why
    for row in FailurePattern.objects.all():
        body = operator("GET", f"/patterns/{row.pk}").body
        assert (body["id"], body["failures"]) == (str(first.pk), 5)
        assert body["merged_templates"] == [LINE.format(n) for n in ("ada", "joe", "mara", "zoe")]
    assert [row["template"] for row in operator("GET", "/patterns").body["data"]] == [GENERAL]
    merged = FailurePattern.objects.exclude(merged_into=None).values_list("pk", flat=True)
    assert patterns.resolve(merged, stamp=Stamp(MARA, NOW)) == []
    assert task in set(stuck_tasks([first.pk]).values_list("pk", flat=True))


@pytest.mark.django_db
@pytest.mark.parametrize("moved", ["ignored", "resolved", "reopened"])
def test_what_a_person_has_moved_is_not_merged(agent: Agent, moved: str) -> None:
    broken(agent, LINE.format("ada"))
    row = FailurePattern.objects.get()
    act = patterns.ignore if moved == "ignored" else patterns.resolve
    act([row.pk], stamp=Stamp(MARA, NOW.replace(microsecond=1)))
    if moved == "reopened":
        patterns.reopen([row.pk], stamp=Stamp(MARA, NOW.replace(microsecond=2)))
    for name in ("joe", "mara", "zoe"):
        broken(agent, LINE.format(name))
    assert templates() == [LINE.format("ada"), GENERAL]
    broken(agent, LINE.format("ada"))
    assert row.grouped.count() == 2


@pytest.mark.django_db
def test_a_moved_general_pattern_stays_together(agent: Agent) -> None:
    for name in ("ada", "joe", "mara"):
        broken(agent, LINE.format(name))
    patterns.ignore([only_current().pk], stamp=Stamp(MARA, NOW.replace(microsecond=1)))
    broken(agent, LINE.format("zoe"))
    assert (only_current().state, only_current().grouped.count()) == (PatternState.IGNORED, 4)


@pytest.mark.django_db
def test_tests_and_projects_are_not_merged(agent: Agent) -> None:
    other = make_agent("coder", project=make_project("elsewhere"))
    output = "E   assert 27 == 30\nFAILED tests/test_a.py::test_{} - assert 27 == 30"
    for name in ("total", "tax", "sum", "rest"):
        broken(agent, output.format(name))
    assert len(templates()) == 4
    second = make_agent("reviewer")
    for whose, name in ((second, "ada"), (other, "joe"), (second, "mara")):
        broken(whose, LINE.format(name))
    assert len(templates()) == 7


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("known", "first", "second"),
    [
        (["ada"], "joe", "mara"),  # both are new, and the second sees the first
        (["ada", "joe"], "joe", "mara"),  # the second merges the pattern that the first joins
        (["ada", "joe"], "mara", "joe"),  # the second joins a pattern that the first merges
    ],
)
def test_simultaneous_failures_are_merged(
    agent: Agent, known: list[str], first: str, second: str
) -> None:
    for name in known:
        broken(agent, LINE.format(name))
    other = make_agent("reviewer")

    def fails_too() -> None:
        try:
            broken(other, LINE.format(second))
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            broken(agent, LINE.format(first))
            late = pool.submit(fails_too)
            with blocked(late):
                pass
        late.result(timeout=PATIENCE_S)
    assert only_current().template == GENERAL
    assert only_current().grouped.count() == len(known) + 2


@pytest.mark.parametrize("start", ["disk", "the second disk of this machine went", ""])
def test_a_message_behind_a_colon_keeps_its_last_word(start: str) -> None:
    """RTY-9: what ends such a line is its cause."""
    words = ("full", "gone", "slow", "broken")
    causes = [" ".join(f"nightly backup worker: {start} {word}".split()) for word in words]
    assert find_merge(causes[0], causes[1:]) is None
    names = [f"nightly backup disk {word}" for word in ("ada", "joe", "zoe", "mara")]
    assert find_merge(names[0], names[1:]) is not None


def test_a_table_takes_lines_of_any_length() -> None:
    table = TemplateTable()
    lines = [" ".join(["word"] * count) for count in (61, 80, 400, 1)]
    for line in lines:
        table.add(line)
    assert [table.find(line) for line in lines] == lines
