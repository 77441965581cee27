"""Measure how plans are read and merged: nothing dropped, nothing falsely merged, nothing repeated.

    python -m bench.plans          # without servers
    python -m bench plans

A generator with a seed writes documents of eight formats and knows each open item in them. An item
is accounted for if its text is in a task's title, action, or criteria, or its line in a warning or
refusal. The merges run on the rules alone, without a database, over random sequences of edits; where
a merge refuses to guess, the author of the edits answers. A task is falsely merged if a row takes
the text of another item although its own one is still in the file.
"""

import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from bench.figures import Figure, Say, Scale, at_least, at_most
from bench.servers import Sandbox
from ledger import planfile
from ledger.errors import Refusal
from ledger.plans.alignment import align
from ledger.plans.identity import PlanAmbiguous
from ledger.plans.similarity import NEAR, POSSIBLE, normalize, similarity

SEED = 31
DOCUMENTS, SEQUENCES = 5_000, 500
LONGEST = 30  # edits in a sequence
VERBS = ["Add", "Write", "Remove", "Design", "Measure", "Review", "Port", "Split", "Draft", "Cache"]
NOUNS = [
    *("parser", "router", "ledger", "invoice", "schema", "webhook", "fixture", "banner", "gallery"),
    *("export", "cursor", "planner", "socket", "palette", "mailer", "archive", "digest", "sampler"),
]
MARKS = ["[ ]", "[ ]", "[ ]", "[]", "[?]", "[>]", "[!]", "[-]"]


@dataclass
class Document:
    """A file, its media type, and each open item with its line."""

    lines: list[str] = field(default_factory=list)
    opened: dict[str, int] = field(default_factory=dict)
    media: str = "text/markdown"

    def add(self, line: str, item: str = "") -> None:
        self.lines.append(line)
        if item:
            self.opened[item] = len(self.lines)


class Titles:
    """Write titles that occur once in a document."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        one, two = self.rng.sample(NOUNS, 2)
        return f"{self.rng.choice(VERBS)} the {one} {two} k{self.count}"


def write_list(rng: random.Random, number: Callable[[int], str], *, nested: bool) -> Document:
    """Write a checklist with sections, ticks, odd boxes, steps, and a list of gates."""
    document, title = Document(), Titles(rng)
    document.add("# Plan")
    for n in range(1, rng.randint(3, 12)):
        if rng.random() < 0.2:
            document.add(f"## {n}. Part")
        is_done = rng.random() < 0.3
        mark = "[x]" if is_done else rng.choice(MARKS)
        text = title()
        document.add(f"- {mark} {number(n)}{text}", "" if is_done else text)
        for _ in range(rng.randint(0, 3) if nested else 0):
            step = title()
            document.add(f"  - [ ] {step}", step)
    if rng.random() < 0.5:
        document.add("## Quality gates")
        for _ in range(2):
            check = title()
            document.add(f"- [ ] {check}", check)
    return document


def write_headings(rng: random.Random) -> Document:
    document, title = Document(), Titles(rng)
    for n in range(1, rng.randint(3, 8)):
        is_done = rng.random() < 0.3
        text = title()
        document.add(
            f"### {rng.choice(['', '🚧 '])}Task {n}: {text}{' ✅' if is_done else ''}",
            "" if is_done else text,
        )
        document.add("Some prose.")
    if rng.random() < 0.4:
        document.add("```sh")
        text = title()
        document.add(f"### Task 99: {text}", text)
    return document


def write_task_master(rng: random.Random) -> Document:
    document, title = Document(media="application/json"), Titles(rng)
    tasks = []
    for n in range(1, rng.randint(3, 10)):
        subtasks = []
        for k in range(1, rng.randint(1, 4)):
            status = rng.choice(["pending", "done", "review"])
            subtasks.append({"id": k, "title": title(), "status": status, "dependencies": []})
        status = rng.choice(["pending", "done", "in-progress"])
        tasks.append({"id": n, "title": title(), "status": status, "subtasks": subtasks})
    document.lines = json.dumps({"master": {"tasks": tasks}}, indent=1).split("\n")
    for task in (each for parent in tasks for each in (parent, *parent["subtasks"])):
        if task["status"] != "done":
            document.opened[task["title"]] = 0
    return document


def write_yaml(rng: random.Random) -> Document:
    document, title = Document(media="application/yaml"), Titles(rng)
    document.add("tasks:")
    for _ in range(rng.randint(2, 10)):
        text = title()
        document.add(f"  - title: {text}", text)
    return document


FORMATS: dict[str, Callable[[random.Random], Document]] = {
    "OpenSpec": lambda rng: write_list(rng, lambda n: f"1.{n} ", nested=False),
    "spec-kit": lambda rng: write_list(rng, lambda n: f"T{n:03} [P] [US1] ", nested=False),
    "Kiro": lambda rng: write_list(rng, lambda n: f"{n}. ", nested=True),
    "BMAD": lambda rng: write_list(rng, lambda n: f"Task {n}: ", nested=True),
    "GitHub": lambda rng: write_list(rng, lambda n: "", nested=True),
    "headings": write_headings,
    "Task Master": write_task_master,
    "YAML": write_yaml,
}


def count_lost(document: Document) -> list[str]:
    """Return the open items of a document that are neither imported nor named."""
    data = "\n".join(document.lines).encode()
    try:
        parsed = planfile.parse(data, media=document.media, agent="coder", ref="01-01")
    except Refusal as refusal:
        if not document.opened and "tasks" in refusal.detail:
            return []
        named = {int(each) for each in re.findall(r"Line (\d+)", str(refusal.more))}
        return [item for item, line in document.opened.items() if line not in named]
    texts = "\n".join(
        "\n".join([task.title, str(task.payload.get("action")), *task.payload.get("done", [])])
        for task in parsed.plan.tasks
    )
    named = {int(each) for each in re.findall(r"\d+", " ".join(parsed.warnings))}
    return [
        item for item, line in document.opened.items() if item not in texts and line not in named
    ]


# ---- merges


@dataclass
class Merges:
    """Counts over all sequences of edits."""

    merges: int = 0
    refused: int = 0
    false: int = 0
    repeated: int = 0
    lost: int = 0


@dataclass
class Row:
    """A stored task: whose item it is, and what it was called last."""

    uid: int
    title: str
    is_started: bool = False


def run_sequence(rng: random.Random, counts: Merges) -> None:
    """Edit a list at random, merge after each edit, and start tasks in between."""
    titles = Titles(rng)
    items = [[uid, titles()] for uid in range(5)]
    number = rng.choice([lambda n: "", lambda n: f"{n}. ", lambda n: f"T{n:03} "])
    rows = {f"01-01:task-{n + 1}": Row(uid, text) for n, (uid, text) in enumerate(items)}
    source = [
        {"ref": ref, "title": row.title, "payload": {}, "number": str(n + 1)}
        for n, (ref, row) in enumerate(rows.items())
    ]
    for step in range(rng.randint(1, LONGEST)):
        edit(rng, items, titles, uid=100 + step)
        text = "\n".join(f"- [ ] {number(n + 1)}{title}" for n, (_, title) in enumerate(items))
        file = planfile.parse(text.encode(), media="text/markdown", agent="coder", ref="01-01").plan
        stored = {
            ref: {"ref": ref, "title": row.title, "payload": {}, "state": "queued"}
            for ref, row in rows.items()
        }
        started = {ref for ref, row in rows.items() if row.is_started}
        options = {"rows": stored, "source": {"tasks": source}, "started": started}
        counts.merges += 1
        try:
            found = align(file, pairs={}, **options).file
        except PlanAmbiguous as unclear:
            counts.refused += 1
            owners = {row.uid: ref for ref, row in rows.items()}
            uids = {title: uid for uid, title in items}
            pairs = {
                each["file_ref"]: owners.get(uids[each["title"]], "new")
                for one in unclear.more["ambiguous"]
                for each in one["candidates"]
            }
            found = align(file, pairs=pairs, **options).file
        refs = [task.ref for task in sorted(found.tasks, key=lambda task: task.origin.place)]
        uids_in_file = {uid for uid, _ in items}
        for (uid, title), ref in zip(items, refs, strict=True):
            row = rows.get(ref)
            if row is None:
                counts.repeated += any(
                    each.uid == uid and each.is_started for each in rows.values()
                )
                rows[ref] = Row(uid, title)
            elif row.uid != uid:
                counts.lost += row.is_started
                counts.false += row.uid in uids_in_file
                rows[ref] = Row(uid, title, row.is_started)
            else:
                row.title = title
        counts.lost += len(set(refs)) != len(items)
        source = [
            {"ref": ref, "title": title, "payload": {}, "number": str(n + 1)}
            for n, ((_, title), ref) in enumerate(zip(items, refs, strict=True))
        ]
        rows[rng.choice(refs)].is_started = True


def edit(rng: random.Random, items: list[list[Any]], titles: Titles, *, uid: int) -> None:
    place = rng.randrange(len(items))
    kind = rng.choice(["insert", "delete", "reorder", "rename", "rewrite", "split"])
    if kind == "insert" or len(items) < 3:
        items.insert(rng.randrange(len(items) + 1), [uid, titles()])
    elif kind == "delete":
        del items[place]
    elif kind == "reorder":
        rng.shuffle(items)
    elif kind == "rename":
        items[place][1] += f" {rng.choice(NOUNS)}"
    elif kind == "rewrite":
        items[place][1] = titles()
    else:
        items.insert(place + 1, [uid, f"{items[place][1]} part {uid}"])


def measure_thresholds(rng: random.Random) -> Iterator[str]:
    """Return how often two different titles, and two names of one task, pass each limit."""
    titles = Titles(rng)
    different = [(titles(), titles()) for _ in range(20_000)]
    same = [(title, f"{title} {rng.choice(NOUNS)}") for title, _ in different]
    for name, pairs in (("different tasks", different), ("one word more", same)):
        scores = [similarity(normalize(one), normalize(other)) for one, other in pairs]
        shares = [
            f"{sum(score >= limit for score in scores) / len(scores):.4f} from {limit}"
            for limit in (POSSIBLE, NEAR)
        ]
        yield f"{name}: {', '.join(shares)}"


def run(sandbox: Sandbox | None, scale: Scale, say: Say) -> list[Figure]:
    """Measure reading and merging; no server is needed."""
    rng = random.Random(SEED)
    documents = 400 if scale.quick else DOCUMENTS
    items, lost = 0, []
    for n in range(documents):
        document = list(FORMATS.values())[n % len(FORMATS)](rng)
        items += len(document.opened)
        lost += count_lost(document)
    for item in lost[:5]:
        say(f"not accounted for: {item}")
    for line in measure_thresholds(rng):
        say(line)
    counts = Merges()
    for _ in range(SEQUENCES // 10 if scale.quick else SEQUENCES):
        run_sequence(rng, counts)
    say(f"{counts.merges} merges, {counts.refused} of them refused as unclear")
    text = "".join(f"- [ ] {n}. {Titles(rng)()} {n}\n" for n in range(1, 501)).encode()
    start = time.process_time()
    planfile.parse(text, media="text/markdown", agent="coder", ref="01-01")
    read_ms = (time.process_time() - start) * 1000
    return [
        Figure("plans: open items accounted for", [1 - len(lost) / items], "of all", at_least(1)),
        Figure("plans: falsely merged tasks", [counts.false], "tasks", at_most(0)),
        Figure(
            "plans: started tasks lost or repeated",
            [counts.lost + counts.repeated],
            "tasks",
            at_most(0),
        ),
        Figure("plans: 500 tasks read", [read_ms], "ms"),
    ]


if __name__ == "__main__":
    figures = run(None, Scale(quick="--quick" in sys.argv), print)
    for figure in figures:
        print(f"{figure.name}: {figure.median:g} {figure.unit} {figure.verdict}")
