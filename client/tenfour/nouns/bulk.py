"""Several rows at once: they are counted first, and a person confirms."""

from __future__ import annotations

import argparse
import sys

from tenfour.display import clean, find_screen
from tenfour.nouns.noun import Parser
from tenfour.terminal import note, wrong_usage


def add_yes(parser: Parser) -> None:
    parser.add_argument("--yes", "-y", action="store_true", help="don't ask before doing it")


def is_confirmed(args: argparse.Namespace, question: str) -> bool:
    """Ask a question on a terminal; without one, require --yes."""
    if args.yes:
        return True
    if not (sys.stdin.isatty() and find_screen(sys.stderr).tty):
        raise wrong_usage(question, "Add --yes to do it without a terminal to ask.")
    print(f"{clean(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    note("Nothing was changed.")
    return False
