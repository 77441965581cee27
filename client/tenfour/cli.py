"""The command `tenfour`: a table of commands; a command's module is imported when it is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from tenfour.commands.terminal import (
    INTERRUPTED,
    OK,
    REFUSED,
    USAGE,
    complain,
    exit_status,
    note,
    say,
    use_utf8,
)
from tenfour.http.problems import TenfourError
from tenfour.version import __version__

if TYPE_CHECKING:
    import argparse
    from types import ModuleType


class Command(NamedTuple):
    """A command: its line of help and the module inside `tenfour` that has its functions.

    The module's function with the command's name runs it and returns the exit status.
    `add_<name>_arguments(parser)`, if there is one, declares its arguments;
    `rewrite_<name>_arguments(argv)` changes those that argparse can't read as they are.
    """

    help: str
    module: str
    # Reports that wait on this machine are sent first.
    sends_reports: bool = True

    def load(self) -> ModuleType:
        return import_module(f"tenfour.{self.module}")


COMMANDS: Mapping[str, Command] = {
    "send": Command(
        "Send an instruction to an agent; prints its id.", "commands.instruction_commands"
    ),
    "pull": Command("Take the agent's waiting instructions.", "commands.instruction_commands"),
    "ack": Command("Acknowledge instructions by their ids.", "commands.instruction_commands"),
    "signal": Command(
        "Report an event; prints the ids that it acknowledges.", "commands.instruction_commands"
    ),
    "enqueue": Command("Enqueue a task for an agent; prints its id.", "commands.work"),
    "claim": Command("Start the agent's next task; prints the attempt's id.", "commands.work"),
    "report": Command("Report how an attempt ended; prints the decision.", "commands.work"),
    "ask": Command("Ask a person about an attempt's task; ends the attempt.", "commands.work"),
    "run": Command("Run a command as the attempts at a task.", "commands.run_commands"),
    "worker": Command("Run a command at task after task.", "commands.run_commands"),
    "resend": Command(
        "Send the reports that wait on this machine.", "commands.run_commands", sends_reports=False
    ),
    "marker": Command(
        "Mark a deploy or a change on charts; prints its id.", "commands.marker_commands"
    ),
    "export": Command(
        "Write retry state and logs as files; prints their names.", "commands.export"
    ),
    "init": Command(
        "Connect Claude Code or Codex: hooks and MCP.", "setup.init", sends_reports=False
    ),
    "headers": Command("Print the headers of a call, for an MCP client.", "setup.init"),
    "hook": Command(
        "Handle an event of Claude Code or Codex, read from stdin.",
        "hooks.hook",
        sends_reports=False,
    ),
    "mcp": Command(
        "Serve MCP on stdin and stdout, for agents that start a program.",
        "commands.mcp_bridge",
        sends_reports=False,
    ),
    "doctor": Command(
        "Check URL, token, clock, versions and the server's health.",
        "setup.doctor",
        sends_reports=False,
    ),
    "completion": Command(
        "Print completions for bash, zsh or fish.", "commands.completion", sends_reports=False
    ),
}
# Each has a module with its verbs; `tenfour NOUN` lists them.
NOUNS: Mapping[str, Command] = {
    "instruction": Command("Texts for agents: list, show, send, ack, cancel.", "nouns.instruction"),
    "standing": Command(
        "Rules that send instructions: list, show, create, pause, try, …", "nouns.standing"
    ),
    "task": Command("Work: list, show, create, change, abort, unblock, …", "nouns.task"),
    "plan": Command(
        "Tasks with needs: list, show, import, sync, pause, restart, …", "nouns.plans.plan"
    ),
    "agent": Command("Workers: list, show, register, pause, trip, …", "nouns.agent"),
    "pool": Command("Names that several agents work for: list, show, create, add, …", "nouns.pool"),
    "escalation": Command("Questions to people (esc): list, show, resolve, …", "nouns.escalation"),
    "on-call": Command(
        "Who is told of escalations: policies, rotas, add-policy, add-rota, …",
        "nouns.settings.on_call",
    ),
    "permission": Command(
        "Calls that agents ask about: list, show, allow, deny, rules, …", "nouns.permission"
    ),
    "budget": Command(
        "Limits in tokens or dollars: list, show, set, grant, …", "nouns.settings.budget"
    ),
    "target": Command("Shares to be in time: list, set, remove.", "nouns.settings.target"),
    "dead-letter": Command(
        "Tasks that failed permanently: list, show, replay, dismiss.", "nouns.deadletter"
    ),
    "pattern": Command("Failures with one cause: list, show, resolve, retry, …", "nouns.pattern"),
    "session": Command(
        "Conversations of agents: list, show, import, flush, retry.", "nouns.session"
    ),
    "event": Command("The journal: list, show, list --follow.", "nouns.events.event"),
    "token": Command("API tokens: list, show, create, rotate, revoke.", "nouns.settings.token"),
}
# A plural lists: `tenfour tasks` is `tenfour task list`.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "esc": ("escalation",),
    "standing-instruction": ("standing",),
    "standing-instructions": ("standing", "list"),
    **{f"{noun}s": (noun, "list") for noun in NOUNS if noun != "standing"},
}

HELP = """usage: tenfour [--url URL] COMMAND …
       tenfour [--url URL] NOUN VERB …

The command line of Tenfour, the reliability ledger for AI agents' work.

commands:
{commands}

nouns and their verbs:
{nouns}

options:
  -h, --help          show this help; `tenfour help COMMAND` or `tenfour help NOUN VERB`
  --version           show the version
  --url URL           where Tenfour runs (TENFOUR_URL)

examples:
  tenfour tasks --state failed        list tasks; short for `tenfour task list`
  tenfour esc resolve 0164ecc5 'fix: trim the input first'
  tenfour events --follow             watch what happens

environment:
  TENFOUR_URL         where Tenfour runs, for example http://127.0.0.1:8000
  TENFOUR_TOKEN       the token
  TENFOUR_TOKEN_FILE  a file with the token, instead of TENFOUR_TOKEN
  TENFOUR_STATE       a folder for reports that wait for the server
  NO_COLOR            print no colors

exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 no task, or a plan's file differs,
             69 unreachable, 75 a person is asked, 76 blocked, 130 aborted or interrupted"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    use_utf8()
    try:
        return dispatch(sys.argv[1:] if argv is None else argv)
    except TenfourError as error:
        complain(error)
        return exit_status(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader is gone; this keeps Python from printing an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return REFUSED


def dispatch(argv: Sequence[str]) -> int:
    """Find the command in the arguments and run it; without one, print help."""
    options, rest = split_options(argv)
    if rest[:1] == ["help"]:
        rest = [*rest[1:], "--help"]
    if not rest or rest[0] in {"-h", "--help"}:
        say(help_text())
        return OK
    if rest[0] == "--version":
        say(f"tenfour {__version__}")
        return OK
    name, *rest = [*ALIASES.get(rest[0], (rest[0],)), *rest[1:]]
    if name in NOUNS:
        from tenfour.nouns.noun import run_noun

        return run_noun(NOUNS[name].load().NOUN, options, rest)
    if name not in COMMANDS:
        note(_unknown(name))
        return USAGE
    return run_command(name, [*options, *rest])


def split_options(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the options before the command, such as `--url`, from the rest.

    >>> split_options(["--url", "http://h", "pull", "--json"])
    (['--url', 'http://h'], ['pull', '--json'])
    """
    at = 0
    while at < len(argv) and argv[at].startswith("--url"):
        at += 2 if argv[at] == "--url" else 1
    return list(argv[:at]), list(argv[at:])


def run_command(name: str, argv: Sequence[str]) -> int:
    """Import the command's module, read its arguments, and run it."""
    module = COMMANDS[name].load()
    rewrite: Callable[[Sequence[str]], Sequence[str]] | None
    if rewrite := getattr(module, f"rewrite_{name}_arguments", None):
        argv = rewrite(argv)
    run: Callable[[argparse.Namespace], int] = getattr(module, name)
    args = parser_of(name).parse_args(list(argv))
    if COMMANDS[name].sends_reports:
        _send_waiting_reports(args.url)
    return run(args)


def _send_waiting_reports(url: str | None) -> None:
    from tenfour.http import outbox

    if not outbox.is_empty():
        from tenfour.commands.run_commands import flush_outbox

        flush_outbox(url)


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command's arguments."""
    import argparse

    command = COMMANDS[name]
    parser = argparse.ArgumentParser(prog=f"tenfour {name}", description=command.help)
    parser.add_argument("--url", default=None, help=argparse.SUPPRESS)
    add: Callable[[argparse.ArgumentParser], None] | None
    if add := getattr(command.load(), f"add_{name}_arguments", None):
        add(parser)
    return parser


def help_text() -> str:
    return HELP.format(commands=_list(COMMANDS), nouns=_list(NOUNS))


def _list(commands: Mapping[str, Command]) -> str:
    return "\n".join(f"    {name:<18}{command.help}" for name, command in commands.items())


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    if name.startswith("-"):
        return f"{name} is not an option of tenfour. `tenfour --help` lists commands and options."
    near = get_close_matches(name, [*COMMANDS, *NOUNS], 1)
    advice = f"Did you mean `tenfour {near[0]}`?" if near else "`tenfour --help` lists them."
    return f"{name} is not a command of tenfour. {advice}"
