"""Measure how plans are read and merged: nothing dropped, nothing falsely merged, nothing repeated.

    python -m bench.plans          # without servers
    python -m bench plans

A generator with a seed writes documents of eight formats and knows each open item in them. An item
is accounted for if its text is in a task's title, action, or criteria, or its line in a warning or
refusal. The merges run on the rules alone, without a database, over random sequences of edits; where
a merge refuses to guess, the author of the edits answers. A task is falsely merged if a row takes
the text of another item although its own one is still in the file.
"""

import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.figures import Figure, Say, Scale, at_least, at_most, ratios
from bench.page_comparison import check_out
from bench.sending import get_pipes
from bench.servers import Sandbox
from config.local.places import PROJECT
from ledger import planfile
from ledger.errors import Refusal
from ledger.planfile.outline.lines import looks_like_work
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
        if self.count % 5 == 0:  # only the number tells it from others
            return f"Step {self.count} of the {one}"
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


# ---- large files, the field's files, and another revision

MIB = 1_048_576
ITEMS = 20_000
ROUNDS = 3  # the fastest counts: other work on the machine only adds time
FILLER = " and some more words that say what is to be done"
# The lines that files of 1 MiB are full of.
LARGE = {
    "ticked items": "- [x] done item abc def\n",
    "numbered items": "- [x] 1.{n} do it (depends on 1.2)\n",
    "open items": "- [ ] an open item\n",
    "steps": "  - [ ] a step\n",
    "headings": "### Task {n}: View ✅\n",
    "sections": "## {n}\n- [x] y\n",
    "fences": "```\n- [ ] x\n```\n",
    "prose": "some words, and then more of them\n",
}


def measure_large(say: Say, *, items: int = MIB) -> tuple[str, float]:
    """Return the kind of file that takes longest to read, and its seconds of processor time.

    Lines are filled with words so that 1 MiB has at most `items` items. Decoding and splitting the
    same bytes into words stands beside it: a busy machine slows both.
    """
    found = []
    for name, kind in LARGE.items():
        line = kind.replace("\n", FILLER[: max(0, MIB // items - len(kind))] + "\n", 1)
        lines, size, n = ["- [ ] 1. open\n"], 20, 0
        while size < MIB - 100:
            n += 1
            lines.append(line.format(n=n))
            size += len(lines[-1].encode())
        data = "".join(lines).encode()
        seconds = min(time_reading(data) for _ in range(ROUNDS))
        start = time.process_time()
        words = sum(len(each.split()) for each in data.decode().splitlines())
        simple = time.process_time() - start
        say(f"1 MiB of {name}: {seconds:.2f} s; {words} words counted in {simple:.3f} s")
        found.append((seconds, name))
    seconds, name = max(found)
    return name, seconds


def time_reading(data: bytes) -> float:
    """Return the seconds of processor time in which a file is read."""
    start = time.process_time()
    with contextlib.suppress(Refusal):
        planfile.parse(data, media="text/markdown", agent="coder", ref="01-01")
    return time.process_time() - start


def count_accepted(say: Say) -> list[Figure]:
    """Return the share of the files in the folder BENCH_PLAN_FILES that are read, if there is one.

    A file in which nothing looks like a task is no plan, and does not count.
    """
    folder = os.environ.get("BENCH_PLAN_FILES")
    accepted = total = 0
    for file in sorted(Path(folder).iterdir()) if folder else ():
        media = "application/json" if file.suffix == ".json" else "text/markdown"
        data = file.read_bytes()
        try:
            planfile.parse(data, media=media, agent="coder", ref="01-01", allow_missing_needs=True)
        except Refusal as refusal:
            if media == "text/markdown" and not any(
                looks_like_work(line) for line in data.decode(errors="replace").splitlines()
            ):
                continue
            say(f"refused: {file.name}: {refusal.detail[:200]}")
        else:
            accepted += 1
        total += 1
    name = f"plans: of {total} files of the field, accepted"
    return [Figure(name, [accepted / total], "of all", at_least(0.97))] if total else []


def compare_imports(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Import 500 tasks, and merge 500 into 500, here and with the rules of another revision."""
    rng = random.Random(SEED)
    titles = Titles(rng)
    before = [(n, titles()) for n in range(1, 501)]
    after = [(n, f"{title} again" if n % 5 == 0 else title) for n, title in before if n % 10]
    after = [(n, titles()) for n in range(501, 551)] + after
    texts = ["".join(f"- [ ] {n}. {title}\n" for n, title in each) for each in (before, after)]
    times: dict[str, tuple[list[float], list[float]]] = {"import": ([], []), "merge": ([], [])}
    other = check_out(sandbox, scale.against)
    with (
        start_importer(sandbox, "tenfour_plans", PROJECT) as ours,
        start_importer(sandbox, "tenfour_plans_other", other) as theirs,
    ):
        for number in range(4 * scale.rounds):
            for side in (0, 1) if number % 2 else (1, 0):
                importer = (ours, theirs)[side]
                ref = f"01-{number}"
                imported = importer({"text": texts[0], "ref": ref, "mode": "create"})
                merged = importer({"text": texts[1], "ref": ref, "mode": "merge"})
                if number:  # the first ones warm up
                    times["import"][side].append(imported)
                    times["merge"][side].append(merged)
    for name, sides in times.items():
        medians = [statistics.median(each) for each in sides]
        say(f"{name} of 500 tasks: {medians[0]:.0f} ms, {medians[1]:.0f} ms in {scale.against}")
    return [
        Figure(f"plans: {name} of 500 tasks / {scale.against}", ratios(*times[name]), "×", target)
        for name, target in (("import", at_most(1.2)), ("merge", at_most(2)))
    ]


@contextmanager
def start_importer(
    sandbox: Sandbox, name: str, folder: Path
) -> Iterator[Callable[[dict[str, str]], float]]:
    """Start a process with the rules in a folder; yield a function that imports and returns ms."""
    url = sandbox.create(name)
    env = sandbox.env(url) | {"PYTHONPATH": str(folder)}
    migrate = [sys.executable, "manage.py", "migrate", "--skip-checks", "-v0"]
    subprocess.run(migrate, env=env, cwd=folder, check=True)
    argv, pipe = [sys.executable, "-m", "bench.plan_importer"], subprocess.PIPE
    with subprocess.Popen(argv, env=env, cwd=folder, stdin=pipe, stdout=pipe, text=True) as process:
        requests, replies = get_pipes(process)
        replies.readline()

        def ask(asked: dict[str, str]) -> float:
            print(json.dumps(asked), file=requests, flush=True)
            return float(json.loads(replies.readline()))

        yield ask
        requests.close()


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
    slowest, seconds = measure_large(say, items=ITEMS)
    densest, longest = measure_large(say)
    return [
        *count_accepted(say),
        *(compare_imports(sandbox, scale, say) if sandbox and scale.against else ()),
        Figure(
            f"plans: 1 MiB of 20,000 lines or items read ({slowest})", [seconds], "s", at_most(1)
        ),
        Figure(f"plans: 1 MiB of the shortest lines read ({densest})", [longest], "s"),
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
