"""Arguments that several commands share."""

from __future__ import annotations

import argparse


def add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-attempts", type=int, metavar="N", help="including the first")
    parser.add_argument("--lease", type=int, metavar="SECONDS", help="time between heartbeats")
    parser.add_argument("--timeout", type=int, metavar="SECONDS", help="time limit of an attempt")
