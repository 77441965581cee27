"""Compare a page at different depths of Python's stack, with and without one block for its frames.

See config/requests/frame_memory.py. The depth stands for the frames of the web server, which differ
between versions.
"""

import json
import subprocess
import sys

from bench.figures import Figure, Say, Scale, at_most, ratios
from bench.pages import OPERATOR, collect_static_files
from bench.servers import Sandbox
from config.local.places import PROJECT

TASKS, INSTRUCTIONS, AGENTS = 20_000, 2_000, 20
PAGE = "/escalations/"
MAX_RATIO = 1.1


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    url = sandbox.create_migrated("tenfour_frames")
    sandbox.seed(
        url,
        ("agents", {"count": AGENTS}),
        ("instruction_month", {"count": INSTRUCTIONS}),
        ("volume", {"count": TASKS // 10 if scale.quick else TASKS}),
        ("operator", {"name": OPERATOR}),
        ("vacuum", {}),
    )
    collect_static_files(sandbox, url)
    argv = [sys.executable, "-m", "bench.frame_depths", OPERATOR, PAGE]
    slowest: tuple[list[float], list[float]] = ([], [])
    fastest: tuple[list[float], list[float]] = ([], [])
    for _ in range(scale.rounds):
        done = subprocess.run(
            argv, env=sandbox.env(url), cwd=PROJECT, check=True, stdout=subprocess.PIPE
        )
        for n, times in enumerate(json.loads(done.stdout)):
            slowest[n].append(max(times))
            fastest[n].append(min(times))
    figures = [
        Figure("page at its slowest depth / fastest", ratios(slowest[0], fastest[0])),
        Figure(
            "page at its slowest depth / fastest, frames in one block",
            ratios(slowest[1], fastest[1]),
        ),
        Figure(
            "slowest depth: frames in one block / in blocks of 16 KB",
            ratios(slowest[1], slowest[0]),
            target=at_most(1),
        ),
        Figure(
            "fastest depth: frames in one block / in blocks of 16 KB",
            ratios(fastest[1], fastest[0]),
            target=at_most(MAX_RATIO),
        ),
    ]
    say(", ".join(f"{figure.name}: {figure.median:.2f}" for figure in figures))
    return figures
