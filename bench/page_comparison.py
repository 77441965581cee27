"""Compare the pages with those of another revision: `python -m bench pages --against REV`.

Both revisions serve copies of one database. A visit to the one follows a visit to the other, so
that other load on the machine meets both.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, Say, Scale, at_most, ratios, summarize
from bench.sending import get_pipes
from bench.servers import Sandbox
from config.local.places import PROJECT

LARGE_PLAN = "plan page, 500 tasks"
MAX_RATIO, MAX_LARGE_PLAN_RATIO = 0.75, 0.5
WARM_UP = 6


@dataclass(frozen=True)
class Visitor:
    """A process that serves one revision to itself."""

    process: "subprocess.Popen[str]"
    paths: dict[str, str]

    def visit(self, page: str) -> tuple[float, float]:
        """Return the milliseconds, and those of processor time in Tenfour's process."""
        print(self.paths[page], file=get_pipes(self.process)[0], flush=True)
        wall, processor = json.loads(get_pipes(self.process)[1].readline())
        return wall, processor


def compare_pages(
    sandbox: Sandbox, url: str, operator: str, visits: int, scale: Scale, say: Say
) -> list[Figure]:
    checkout = check_out(sandbox, scale.against)
    other_url = sandbox.create("tenfour_other_pages", template="tenfour_pages")
    other_env = sandbox.env(other_url) | {
        "PYTHONPATH": str(checkout),
        "TENFOUR_DATA": str(sandbox.folder / "other_data"),
        "REDIS_URL": sandbox.urls["REDIS_URL"].removesuffix("/0") + "/1",
    }
    with ExitStack() as stack:
        ours = stack.enter_context(start_visitor(sandbox.env(url), PROJECT, operator))
        theirs = stack.enter_context(start_visitor(other_env, checkout, operator))
        return [
            figure
            for page in ours.paths
            for figure in compare_page(page, ours, theirs, visits, scale, say)
        ]


def check_out(sandbox: Sandbox, revision: str) -> Path:
    """Write the files of a revision to a folder, with the bench of this one."""
    folder = sandbox.folder / "other"
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", revision], cwd=PROJECT, check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    shutil.rmtree(folder / "bench", ignore_errors=True)
    shutil.copytree(PROJECT / "bench", folder / "bench")
    return folder


@contextmanager
def start_visitor(env: dict[str, str], folder: Path, operator: str) -> Iterator[Visitor]:
    Path(env["TENFOUR_DATA"]).mkdir(exist_ok=True)
    static = [sys.executable, "manage.py", "collectstatic", "--no-input", "-v0"]
    subprocess.run(static, env=env, cwd=folder, check=True)
    argv = [sys.executable, "-m", "bench.page_visitor", operator]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=env, cwd=folder, stdin=pipe, stdout=pipe, text=True) as process:
        yield Visitor(process, json.loads(get_pipes(process)[1].readline()))
        get_pipes(process)[0].close()


def compare_page(
    page: str, ours: Visitor, theirs: Visitor, visits: int, scale: Scale, say: Say
) -> list[Figure]:
    sides = (ours, theirs)
    for _ in range(WARM_UP):
        for side in sides:
            side.visit(page)
    p95: tuple[list[float], list[float]] = ([], [])
    processor: tuple[list[float], list[float]] = ([], [])
    for _ in range(scale.rounds):
        times: tuple[list[tuple[float, float]], ...] = ([], [])
        for number in range(visits):
            for n in (0, 1) if number % 2 else (1, 0):
                times[n].append(sides[n].visit(page))
        for n in (0, 1):
            p95[n].append(sorted(wall for wall, _ in times[n])[visits * 95 // 100])
            processor[n].append(sorted(ms for _, ms in times[n])[visits // 2])
    limit = MAX_LARGE_PLAN_RATIO if page == LARGE_PLAN else MAX_RATIO
    compared = [
        (f"{page}: p95 / {scale.against}", p95, at_most(limit)),
        (f"{page}: processor time / {scale.against}", processor, None),
    ]
    figures = [
        Figure(
            name,
            ratios(*values),
            target=target,
            detail={"ours_ms": summarize(values[0]), "theirs_ms": summarize(values[1])},
        )
        for name, values, target in compared
    ]
    say(", ".join(f"{figure.name}: {figure.median:.2f}" for figure in figures))
    return figures
