"""Export of retry state and logs to files: the project's, and each plan's."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path

from tenfour.client import Client
from tenfour.commands.export_files import replace_file
from tenfour.commands.terminal import OK, say

FILES = ("retry-state.json", "retry.log", "retry.jsonl", "state.md", "failure-records.yaml")
# a task's ref in a plan; the plan's ref is before the colon, and safe as a folder's name
IN_PLAN = re.compile(r"([A-Za-z0-9.]+-[A-Za-z0-9.]+):.+")


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="created if missing")
    parser.add_argument("--plan", metavar="REF", help="this plan only")
    parser.add_argument(
        "--follow",
        "-f",
        action="store_true",
        help="keep state/, logs/ and STATE.md below DIR current until interrupted",
    )


def export(args: argparse.Namespace) -> int:
    """Write the files and print their names; each plan in the project's files gets a folder.

    With --follow, keep one set of files current instead.
    """
    folder = Path(args.folder)
    with Client(args.url) as tenfour:
        if args.follow:
            from tenfour.commands.export_following import follow_documents

            follow_documents(tenfour, folder, args.plan)
        texts = _texts(tenfour, args.plan)
        _write(folder, texts)
        for ref in [] if args.plan else _plans(texts):
            _write(folder / "plans" / ref, _texts(tenfour, ref))
    return OK


def _texts(tenfour: Client, plan: str | None) -> dict[str, str]:
    texts = {name: tenfour.document(name, plan=plan) for name in FILES}
    if plan:
        texts["summary.md"] = tenfour.document("summary", plan=plan)
    return texts


def _plans(texts: Mapping[str, str]) -> list[str]:
    tasks = set(json.loads(texts["retry-state.json"])["task_retries"])
    tasks |= {json.loads(line)["task_id"] for line in texts["retry.jsonl"].splitlines()}
    return sorted({match[1] for match in map(IN_PLAN.fullmatch, tasks) if match})


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        replace_file(folder / name, text)
        say(str(folder / name))
