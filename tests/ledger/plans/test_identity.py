"""Merges recognize tasks by meaning: real files in versions, and generated edits."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger import planfile
from ledger.access.audit import audit
from ledger.errors import Invalid
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Plan, Project, Task
from ledger.needs import fetch_skipped_needs
from ledger.plans.identity import PlanAmbiguous
from ledger.plans.import_diff import ImportOptions, ImportResult
from ledger.plans.similarity import CERTAIN, NEAR, POSSIBLE, normalize, similarity
from ledger.states import TaskState
from retries.plans import importing
from tests.factories import NOW, make_agent
from tests.ledger.plans.test_import_writer import do

pytestmark = pytest.mark.django_db
S = TaskState


def merge(text: str, mode: str = "merge", **options: Any) -> ImportResult:
    parsed = planfile.parse(text.encode(), agent="coder", ref="03-01")
    return importing.import_plan(
        Project.objects.get(name="default"),
        parsed.plan,
        options=ImportOptions(mode=mode, warnings=parsed.warnings, **options),
        stamp=Stamp(SYSTEM, NOW),
    )


def create(text: str) -> ImportResult:
    return merge(text, "create")


def rows() -> dict[str, tuple[str, str]]:
    """Return each task's title and state, by ref."""
    found = Task.objects.current().filter(plan__ref="03-01").order_by("pk")
    return {str(task.ref).partition(":")[2]: (task.title, task.state) for task in found}


def listed(*titles: str) -> str:
    return "# P\n\n" + "".join(f"- [ ] {title}\n" for title in titles)


F01 = {
    "checklist": (listed("A", "B", "C"), listed("Z first", "A", "B", "C")),
    "yaml": (
        "ref: 03-01\nagent: coder\norder: sequential\ntasks:\n"
        "  - title: A\n  - title: B\n  - title: C\n",
        "ref: 03-01\nagent: coder\norder: sequential\ntasks:\n"
        "  - title: Z first\n  - title: A\n  - title: B\n  - title: C\n",
    ),
    "renumbered": (listed("1. A", "2. B", "3. C"), listed("1. Z first", "2. A", "3. B", "4. C")),
    "headings": (
        "### Task 1: A\n### Task 2: B\n### Task 3: C\n",
        "### Task 1: Z first\n### Task 2: A\n### Task 3: B\n### Task 4: C\n",
    ),
}


@pytest.mark.parametrize("form", F01)
def test_f01_a_task_inserted_on_top_moves_no_other(agent: Agent, form: str) -> None:
    """PLN-1: the new one is queued, the done one stays done, and the rest keep their rows."""
    before, after = F01[form]
    create(before)
    do(agent, "03-01:task-1")
    ids = dict(Task.objects.values_list("ref", "pk"))
    done = merge(after)
    assert rows() == {
        "task-1": ("A", S.DONE),
        "task-2": ("B", S.QUEUED),
        "task-3": ("C", S.BLOCKED),
        "task-4": ("Z first", S.QUEUED),
    }
    assert done.diff.added == ["03-01:task-4"]
    assert ids.items() <= dict(Task.objects.values_list("ref", "pk")).items()
    assert merge(after).unchanged
    assert list(audit()) == []


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (listed("B", "C"), {"A": S.DONE, "B": S.QUEUED, "C": S.BLOCKED}),
        (listed("C", "A", "B"), {"A": S.DONE, "B": S.QUEUED, "C": S.QUEUED}),
        (listed("A", "D", "B", "C"), {"D": S.QUEUED, "A": S.DONE, "B": S.BLOCKED}),
        (listed("**A**", "b.", "C!"), {"A": S.DONE, "b.": S.QUEUED}),
    ],
)
def test_edits_of_a_list(agent: Agent, after: str, expected: dict[str, str]) -> None:
    create(listed("A", "B", "C"))
    do(agent, "03-01:task-1")
    merge(after)
    assert expected.items() <= dict(rows().values()).items()
    assert list(audit()) == []


def test_a_renamed_task_keeps_its_row_and_its_needs(agent: Agent) -> None:
    create(listed("Write the exporter", "Add a login page", "Document it"))
    done = merge(listed("Write the exporter", "Add the lgoin pages", "Document it"))
    assert done.diff.added == [] and rows()["task-2"][0] == "Add the lgoin pages"
    assert [(match.ref, match.is_guess) for match in done.matches] == [("03-01:task-2", True)]


def test_a_started_task_that_may_be_renamed_is_settled_by_the_caller(agent: Agent) -> None:
    create(listed("Write the export of invoices", "Document it"))
    do(agent, "03-01:task-1")
    after = listed("Write the import of invoices", "Document it")
    with pytest.raises(PlanAmbiguous) as refused:
        merge(after)
    [unclear] = refused.value.more["ambiguous"]
    assert (unclear["ref"], unclear["title"], unclear["state"]) == (
        "03-01:task-1",
        "Write the export of invoices",
        "done",
    )
    assert unclear["candidates"] == [
        {"file_ref": "03-01:task-1", "title": "Write the import of invoices", "similarity": 0.5}
    ]
    assert len(rows()) == 2
    for pairs in ({"task-9": "new"}, {"1": "task-9"}, {"1": "2", "2": "2"}):
        with pytest.raises(Invalid):
            merge(after, pairs=pairs)
    assert merge(after, pairs={"1": "1"}, dry_run=True).diff.added == []
    assert merge(after, pairs={"task-1": "new"}, dry_run=True).diff.added == ["03-01:task-3"]
    assert merge(after, pairs={"task-1": "task-1"}).diff.untouched == ["03-01:task-1"]
    # It stays settled.
    more = listed("Write the import of invoices", "Document it", "Publish")
    assert merge(more).diff.added == ["03-01:task-3"]


def test_new_work_in_the_place_of_started_work_is_unclear(agent: Agent) -> None:
    """Nothing tells a new name from new work."""
    create(listed("A", "B", "C"))
    do(agent, "03-01:task-1")
    with pytest.raises(PlanAmbiguous):
        merge(listed("Something else", "B", "C"))
    assert merge(listed("Something else", "B", "C"), pairs={"new": "new"}).diff.added
    assert merge(listed("Something else", "More", "B", "C")).diff.left == ["03-01:task-1"]


def test_an_id_that_now_names_another_task_is_unclear(agent: Agent) -> None:
    """A model has renumbered a file with refs."""
    plan = "ref: 03-01\nagent: coder\ntasks:\n"
    create(f"{plan}  - {{ref: task-1, title: Alpha}}\n  - {{ref: task-2, title: Beta}}\n")
    do(agent, "03-01:task-1")
    moved = (
        f"{plan}  - {{ref: task-1, title: Omega}}\n  - {{ref: task-2, title: Alpha}}\n"
        "  - {ref: task-3, title: Beta}\n"
    )
    with pytest.raises(PlanAmbiguous):
        merge(moved)
    merge(moved, pairs={"1": "new", "2": "1", "3": "2"})
    assert [title for title, _ in rows().values()] == ["Alpha", "Beta", "Omega"]


def test_a_split_task_is_kept_or_unclear(agent: Agent) -> None:
    create(listed("Build the server and the client", "Ship it"))
    do(agent, "03-01:task-1")
    with pytest.raises(PlanAmbiguous):
        merge(listed("Build the server", "Build the client", "Ship it"))


def test_duplicates_are_told_apart_by_what_stands_below_them(agent: Agent) -> None:
    create("- [ ] Test\n  the server\n- [ ] Test\n  the client\n- [ ] Test\n")
    do(agent, "03-01:task-1")
    merge("- [ ] Test\n- [ ] Test\n  the client\n- [ ] Test\n  the server\n- [ ] Test\n")
    states = {
        task.payload.get("action"): task.state
        for task in Task.objects.filter(ref__in=["03-01:task-1", "03-01:task-2"])
    }
    assert states == {"the server": S.DONE, "the client": S.BLOCKED}
    assert len(rows()) == 4


def test_f27_a_task_that_is_ticked_in_the_file_is_done(agent: Agent) -> None:
    """PLN-6: no agent does it again, and the journal says why."""
    create("# P\n\n- [ ] A\n- [ ] B\n- [ ] C\n")
    done = merge("# P\n\n- [x] A\n- [ ] B\n- [ ] C\n")
    assert rows() == {
        "task-1": ("A", S.DONE),
        "task-2": ("B", S.QUEUED),
        "task-3": ("C", S.BLOCKED),
    }
    assert [row["state"] for row in done.tasks][:2] == [S.DONE, S.QUEUED]
    event = Event.objects.get(kind="task.completed")
    assert event.data == {"ticked": True, "note": "The plan's file marks it as done."}
    dependent = Task.objects.get(ref="03-01:task-2").pk
    assert not fetch_skipped_needs([dependent])[dependent]
    assert list(audit()) == []


def test_all_ticked(agent: Agent) -> None:
    create(listed("A", "B"))
    do(agent, "03-01:task-1")
    merge("# P\n\n- [x] A\n- [x] B\n")
    assert rows() == {"task-1": ("A", S.DONE), "task-2": ("B", S.DONE)}
    with pytest.raises(Invalid, match="all its 1 tasks as done"):
        planfile_ = planfile.parse(b"- [x] A", agent="coder", ref="03-02").plan
        importing.import_plan(
            Project.objects.get(name="default"), planfile_, stamp=Stamp(SYSTEM, NOW)
        )


@pytest.mark.parametrize(
    ("one", "other", "least", "most"),
    [
        ("Add login page", "1. Add the **login** page!", CERTAIN, CERTAIN),
        ("Add login page", "Add lgoin pages", CERTAIN, CERTAIN),
        ("Create index", "Create search index", NEAR, 0.99),
        ("Add login page", "Add logout page", POSSIBLE, NEAR - 0.01),
        ("Test module 3", "Test module 4", POSSIBLE, NEAR - 0.01),
        ("Lock the account", "Unlock the account", 0, NEAR - 0.01),
        ("Write docs", "Ship it", 0, 0),
        ("创建用户登录页面", "创建用户登录页", NEAR, 1),
        ("", "", 0, 0),
    ],
)
def test_similar_texts(one: str, other: str, least: float, most: float) -> None:
    assert least <= similarity(normalize(one), normalize(other)) <= most


# ---- generated edits

VERBS = ["Add", "Write", "Remove", "Design", "Measure", "Review", "Port", "Split", "Draft", "Cache"]
NOUNS = [
    "parser",
    "router",
    "ledger",
    "invoice",
    "schema",
    "webhook",
    "fixture",
    "banner",
    "gallery",
    "export",
    "cursor",
    "planner",
    "socket",
    "palette",
    "mailer",
    "archive",
    "digest",
    "sampler",
    "beacon",
    "anchor",
]


@dataclass
class Item:
    """A task as its author knows it, whatever they call it."""

    uid: int
    title: str
    is_ticked: bool = False


@dataclass
class Author:
    """Edit a file as people do; `random` is seeded by hypothesis."""

    random: random.Random
    form: str
    items: list[Item] = field(default_factory=list)
    count: int = 0

    def new_item(self) -> Item:
        self.count += 1
        verb = self.random.choice(VERBS)
        one, two = self.random.sample(NOUNS, 2)
        return Item(self.count, f"{verb} {one} {two} {self.count * 7}")

    def edit(self, kind: str) -> None:
        place = self.random.randrange(len(self.items)) if self.items else 0
        if kind == "insert" or len(self.items) < 2:
            self.items.insert(self.random.randrange(len(self.items) + 1), self.new_item())
        elif kind == "delete":
            del self.items[place]
        elif kind == "reorder":
            self.random.shuffle(self.items)
        elif kind == "rename":
            word = self.random.choice(NOUNS)
            self.items[place].title = f"{self.items[place].title} {word}"
        elif kind == "rewrite":
            self.items[place].title = f"Rewritten {self.random.choice(NOUNS)} {self.count}"
            self.count += 1
        elif kind == "split":
            self.items.insert(place + 1, self.new_item())
            self.items[place + 1].title = f"{self.items[place].title} second part {self.count}"
        elif kind == "tick":
            self.items[place].is_ticked = True

    def write(self) -> str:
        lines = ["# P", ""]
        for n, item in enumerate(self.items):
            number = {"list": "", "numbered": f"{n + 1}. ", "ids": f"T{n + 1:03} "}[self.form]
            lines.append(f"- [{'x' if item.is_ticked else ' '}] {number}{item.title}")
        return "\n".join(lines) + "\n"


EDITS = st.lists(
    st.sampled_from(["insert", "delete", "reorder", "rename", "rewrite", "split", "tick"]),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    edits=EDITS,
    per_merge=st.integers(1, 3),
    form=st.sampled_from(["list", "numbered", "ids"]),
    seed=st.integers(0, 2**32),
)
def test_generated_edits_lose_and_repeat_nothing(
    edits: list[str], per_merge: int, form: str, seed: int
) -> None:
    """After each merge every open item waits or ran once, and no started item is there twice."""
    with transaction.atomic():
        agent = make_agent("coder")
        author = Author(random.Random(seed), form)
        author.items = [author.new_item() for _ in range(4)]
        create(author.write())
        owners = learn_owners(author, {})
        for at in range(0, len(edits), per_merge):
            for kind in edits[at : at + per_merge]:
                author.edit(kind)
            merge_as_author(author, owners)
            owners = learn_owners(author, owners)
            check(author, owners)
            if author.random.random() < 0.7:
                finish_one(author, agent)
        assert list(audit()) == []
        transaction.set_rollback(True)


def merge_as_author(author: Author, owners: dict[str, int]) -> None:
    """Merge; where the merge can't tell, answer what the author knows."""
    try:
        merge(author.write())
    except PlanAmbiguous as unclear:
        pairs = {}
        uids = {item.title: item.uid for item in author.items}
        asked = {each["title"] for one in unclear.more["ambiguous"] for each in one["candidates"]}
        files = {
            each["title"]: each["file_ref"]
            for one in unclear.more["ambiguous"]
            for each in one["candidates"]
        }
        refs = {uid: ref for ref, uid in owners.items()}
        for title in asked:
            pairs[files[title]] = refs.get(uids[title], "new")
        merge(author.write(), pairs=pairs)


def learn_owners(author: Author, owners: dict[str, int]) -> dict[str, int]:
    """Return which item each stored task is: by the title that the file gave it last.

    An item that is rewritten before it has started is a new task; the former one is left.
    """
    uids = {item.title: item.uid for item in author.items}
    found = dict(owners)
    source = {task["ref"]: task for task in Plan.objects.get().source["tasks"]}
    for task in Task.objects.current().filter(plan__ref="03-01"):
        ref = str(task.ref)
        named = source.get(ref, {}).get("file_title") or task.title
        if named in uids and (ref not in found or not task.attempts):
            for other in [each for each, uid in found.items() if uid == uids[named]]:
                if other != ref and not Task.objects.current().get(ref=other).attempts:
                    del found[other]
            found[ref] = uids[named]
    return found


def check(author: Author, owners: dict[str, int]) -> None:
    by_uid: dict[int, list[Task]] = {}
    for task in Task.objects.current().filter(plan__ref="03-01"):
        if str(task.ref) in owners:
            by_uid.setdefault(owners[str(task.ref)], []).append(task)
    for item in author.items:
        found = by_uid.get(item.uid, [])
        if not item.is_ticked:
            assert found, f"{item.title} is lost"
        started = [task for task in found if task.attempts]
        waiting = [task for task in found if task.state in (S.QUEUED, S.BLOCKED)]
        assert not (started and waiting), f"{item.title} would run again"


def finish_one(author: Author, agent: Agent) -> None:
    waiting = Task.objects.current().filter(plan__ref="03-01", state=S.QUEUED).order_by("pk")
    if task := waiting.first():
        do(agent, str(task.ref))


def test_a_number_inside_a_title_tells_tasks_apart(agent: Agent) -> None:
    """A ticked step ends no other step, also if that one is renamed."""
    create(listed("Step 1 of the tour", "Step 5 of the tour"))
    done = merge("- [x] Step 2 of the tour\n- [ ] Step 1 of the tour\n- [ ] Step 5 of that tour\n")
    assert not done.ticked and [state for _, state in rows().values()] == [S.QUEUED, S.BLOCKED]
