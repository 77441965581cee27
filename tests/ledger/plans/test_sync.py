"""Generated edits, finished tasks and syncs: nothing is lost, repeated or rewritten."""

import random
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st
from tenfour.nouns.plans.plan_sync import tick

from ledger.access.audit import audit
from ledger.models import Task
from ledger.plans.identity import PlanAmbiguous
from ledger.plans.import_diff import ImportResult
from ledger.states import TaskState
from retries.api.plans import describe_lines
from tests.factories import make_agent
from tests.ledger.plans.test_identity import Author, check, create, finish_one, learn_owners, merge

pytestmark = pytest.mark.django_db
BOX = re.compile(r"^(\s*- )\[( |x)\]", re.M)


@dataclass
class Step:
    text: str
    is_ticked: bool = False


@dataclass
class Writer(Author):
    """An author whose items have steps, and prose with boxes around them."""

    steps: dict[int, list[Step]] = field(default_factory=dict)

    def edit(self, kind: str) -> None:
        if kind == "add step":
            self.count += 1
            item = self.random.choice(self.items)
            self.steps.setdefault(item.uid, []).append(Step(f"Check unit {self.count} twice"))
        else:
            super().edit(kind)

    def write(self) -> str:
        lines = ["# P", "", "Text with a [ ] in it, and a table | [ ] |.", ""]
        for n, item in enumerate(self.items):
            number = {"list": "", "numbered": f"{n + 1}. ", "ids": f"T{n + 1:03} "}[self.form]
            lines.append(f"- [{'x' if item.is_ticked else ' '}] {number}{item.title}")
            lines += [
                f"  - [{'x' if step.is_ticked else ' '}] {step.text}"
                for step in self.steps.get(item.uid, ())
            ]
        return "\r\n".join(lines)

    def read(self, text: str) -> None:
        """Take over the boxes of the file, as a person who opens it again."""
        ticks = iter([match[2] == "x" for match in BOX.finditer(text)])
        for item in self.items:
            item.is_ticked = next(ticks)
            for step in self.steps.get(item.uid, ()):
                step.is_ticked = next(ticks)


EDITS = st.lists(
    st.sampled_from(
        ["insert", "delete", "reorder", "rename", "rewrite", "split", "tick", "add step"]
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    edits=EDITS,
    per_sync=st.integers(1, 3),
    form=st.sampled_from(["list", "numbered", "ids"]),
    seed=st.integers(0, 2**32),
)
def test_generated_edits_and_syncs(edits: list[str], per_sync: int, form: str, seed: int) -> None:
    with transaction.atomic():
        agent = make_agent("coder")
        author = Writer(random.Random(seed), form)
        author.items = [author.new_item() for _ in range(3)]
        create(author.write())
        owners = learn_owners(author, {})
        for at in range(0, len(edits), per_sync):
            for kind in edits[at : at + per_sync]:
                author.edit(kind)
            if author.random.random() < 0.3:
                settle(author, author.write(), owners)
                owners = learn_owners(author, owners)
                check(author, owners)
            if author.random.random() < 0.7:
                finish_one(author, agent)
            sync(author, owners)
            owners = learn_owners(author, owners)
            check(author, owners)
            check_steps(author)
        assert list(audit()) == []
        transaction.set_rollback(True)


def sync(author: Writer, owners: dict[str, int]) -> None:
    """Do what `tenfour plan sync` does, and check what it writes."""
    before = author.write()
    found = settle(author, before, owners, dry_run=True)
    after = tick(before.encode(), describe_lines(found)).decode()
    assert BOX.sub(r"\1[ ]", after) == BOX.sub(r"\1[ ]", before)
    author.read(after)
    assert author.write() == after
    last = settle(author, after, owners)
    assert not last.ticks
    done = Task.objects.current().filter(plan__ref="03-01", state=TaskState.DONE)
    open_refs = {line.ref for line in last.lines if line.became == "task"}
    assert open_refs.isdisjoint(done.values_list("ref", flat=True))


def settle(author: Writer, text: str, owners: dict[str, int], **options: Any) -> ImportResult:
    """Merge; where the merge can't tell, answer what the author knows."""
    try:
        return merge(text, **options)
    except PlanAmbiguous as unclear:
        uids = {item.title: item.uid for item in author.items}
        refs = {uid: ref for ref, uid in owners.items()}
        pairs = {
            each["file_ref"]: refs.get(uids.get(each["title"], -1), "new")
            for one in unclear.more["ambiguous"]
            for each in one["candidates"]
        }
        return merge(text, pairs=pairs, **options)


def check_steps(author: Writer) -> None:
    """Each open step is a part of an open item's task, or a task of its own."""
    titles = {*Task.objects.current().filter(plan__ref="03-01").values_list("title", flat=True)}
    for item in author.items:
        for step in author.steps.get(item.uid, ()):
            if item.is_ticked and not step.is_ticked:
                assert step.text in titles, f"{step.text} is lost"
