"""Export of retry state and logs to files: the project's, and each plan's."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tenfour.client import Client
from tenfour.terminal import OK, say, wrong_usage

FILES = ("retry-state.json", "retry.log", "retry.jsonl", "state.md")
# a task's ref in a plan; the plan's ref is before the colon, and safe as a folder's name
IN_PLAN = re.compile(r"([A-Za-z0-9.]+-[A-Za-z0-9.]+):.+")


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="created if missing")
    parser.add_argument("--plan", metavar="REF", help="this plan only")


def export(args: argparse.Namespace) -> int:
    """Write the files and print their names; each plan in the project's files gets a folder."""
    folder = Path(args.folder)
    with Client(args.url) as tenfour:
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
    for path in _write_files(folder, texts):
        say(str(path))


def _write_files(folder: Path, texts: Mapping[str, str]) -> Iterator[Path]:
    for name, text in texts.items():
        path, draft = folder / name, folder / f".{name}.{os.getpid()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(text, encoding="utf-8", newline="\n")
            # A concurrent reader sees the old file or the new one, never a part.
            draft.replace(path)
        except OSError as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise wrong_usage(f"{path} can't be written: {error.strerror}.") from error
        yield path
