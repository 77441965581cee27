"""Ask a person before something is done, unless --yes says that it is wanted."""

from __future__ import annotations

import argparse
import sys

from tenfour.commands.display import clean, find_screen
from tenfour.commands.terminal import note, wrong_usage
from tenfour.nouns.noun import Parser


def add_yes(parser: Parser) -> None:
    parser.add_argument("--yes", "-y", action="store_true", help="don't ask before doing it")


def is_confirmed(args: argparse.Namespace, question: str) -> bool:
    """Ask a question on a terminal; without one, require --yes."""
    if args.yes:
        return True
    if not is_on_terminal():
        raise wrong_usage(question, "Add --yes to do it without a terminal to ask.")
    print(f"{clean(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    note("Nothing was changed.")
    return False


def is_confirmed_on_terminal(args: argparse.Namespace, question: str) -> bool:
    """Ask a question on a terminal; elsewhere, a script says what it wants by calling."""
    return not is_on_terminal() or is_confirmed(args, question)


def is_on_terminal() -> bool:
    return sys.stdin.isatty() and find_screen(sys.stderr).tty
