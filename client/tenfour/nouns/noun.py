"""A noun with its verbs: their help, and running one of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenfour.commands.display import one_line
from tenfour.commands.terminal import OK, USAGE, complain, exit_status, note, say
from tenfour.http.problems import TenfourError
from tenfour.nouns.rows import Ambiguous

Parser = argparse.ArgumentParser
# The kinds of tokens that have a scope, as people call them.
HOLDERS: Mapping[str, str] = {
    "tasks:read": "any token",
    "tasks:work": "an agent's, a producer's or an operator's token",
    "tasks:create": "an agent's, a producer's or an operator's token",
    "tasks:write": "a producer's or an operator's token",
    "plans:write": "a producer's or an operator's token",
    "instructions:read": "any token",
    # others have the scope too, but no queue of instructions
    "instructions:ack": "an agent's token",
    "instructions:write": "a producer's or an operator's token",
    "sessions:read": "any token",
    "sessions:write": "an agent's, a producer's or an operator's token",
    "signals:write": "an agent's, a producer's or an operator's token",
    "escalations:read": "any token",
    "escalations:resolve": "an operator's token",
    "deadletters:write": "an operator's token",
    "agents:read": "a producer's, an operator's or a reader's token",
    "agents:write": "an operator's token",
    "events:read": "a producer's, an operator's or a reader's token",
    "tokens:write": "an operator's token that was created to manage tokens",
}


@dataclass(frozen=True)
class Verb:
    """One command, `tenfour NOUN VERB`: its help, the scope that it needs, and its function."""

    help: str
    scope: str
    run: Callable[[argparse.Namespace], int]
    add_arguments: Callable[[Parser], None] = lambda parser: None
    rewrite: Callable[[Sequence[str]], Sequence[str]] = lambda argv: argv
    example: str = ""


@dataclass(frozen=True)
class Noun:
    """A group of commands, `tenfour NOUN`."""

    name: str
    help: str
    verbs: Mapping[str, Verb]
    ids: str = ""


def run_noun(noun: Noun, options: Sequence[str], argv: Sequence[str]) -> int:
    """Run a verb of a noun; without one, print the noun's help."""
    if not argv or argv[0] in {"-h", "--help"}:
        say(describe_noun(noun))
        return OK
    name, *rest = argv
    if name not in noun.verbs:
        note(unknown_verb(noun, name))
        return USAGE
    verb = noun.verbs[name]
    parser = parser_of(noun, name)
    args = parser.parse_args([*options, *verb.rewrite(rest)])
    try:
        return verb.run(args)
    except TenfourError as error:
        explain(error, noun, name, parser)
        return exit_status(error)


def explain(error: TenfourError, noun: Noun, name: str, parser: Parser) -> None:
    """Print an error of a verb in the terms of the command line."""
    scope = noun.verbs[name].scope
    if error.code in {"scope_missing", "human_required"}:
        note(describe_missing_scope(f"tenfour {noun.name} {name}", error, scope))
        return
    complain(error, arguments=arguments_of(parser))
    for candidate in error.candidates if isinstance(error, Ambiguous) else ():
        print(f"  {one_line(candidate)}", file=sys.stderr)


def describe_missing_scope(command: str, error: TenfourError, scope: str) -> str:
    """Say which scope or which kind of token a command needs."""
    request = f" (request {error.request_id})" if error.request_id else ""
    if error.code == "human_required":
        return (
            f"`{command}` needs the scope {scope}, and is for people: use an operator's token, or "
            f"the page in the browser.{request}"
        )
    missing = str(error.problem.get("scope") or "")
    if missing != scope:
        # The token has the scope, but not for this agent, or it is not an agent's.
        return f"`{command}`: {error.detail} It needs {HOLDERS[missing or scope]}.{request}"
    return (
        f"`{command}` needs the scope {missing}, which this token does not have. "
        f"Use {HOLDERS.get(missing, 'a token that has it')}; "
        f"`tenfour doctor` lists this token's scopes.{request}"
    )


def arguments_of(parser: Parser) -> Mapping[str, str]:
    """Return what people type for each argument: the option, or the argument's name."""
    return {
        action.dest: action.option_strings[-1]
        if action.option_strings
        else str(action.metavar or action.dest)
        for action in parser._actions
    }


def parser_of(noun: Noun, name: str) -> Parser:
    verb = noun.verbs[name]
    about = f"{verb.help} Needs the scope {verb.scope}: {HOLDERS[verb.scope]}."
    parser = argparse.ArgumentParser(
        prog=f"tenfour {noun.name} {name}",
        description=about,
        epilog=f"example: {verb.example}" if verb.example else noun.ids or None,
    )
    parser.add_argument("--url", default=None, help=argparse.SUPPRESS)
    verb.add_arguments(parser)
    return parser


def describe_noun(noun: Noun) -> str:
    width = max(map(len, noun.verbs)) + 2
    lines = [f"  {name:<{width}}{verb.help} ({verb.scope})" for name, verb in noun.verbs.items()]
    return "\n".join(
        [
            f"usage: tenfour {noun.name} VERB …",
            "",
            noun.help,
            "",
            "verbs, each with the scope that the token needs:",
            *lines,
            "",
            *([noun.ids, ""] if noun.ids else []),
            f"`tenfour help {noun.name} VERB` shows a verb's arguments and options.",
        ]
    )


def unknown_verb(noun: Noun, name: str) -> str:
    from difflib import get_close_matches

    command = f"tenfour {noun.name}"
    if name.startswith("-"):
        return f"{command} needs a verb before {one_line(name)}. `{command}` lists them."
    near = get_close_matches(name, noun.verbs, 1)
    advice = f"Did you mean `{command} {near[0]}`?" if near else f"`{command}` lists them."
    return f"{one_line(name)} is not a verb of `{command}`. {advice}"


def choose(args: argparse.Namespace, *names: str) -> dict[str, str]:
    """Return the options that were given as parameters of a list."""
    values: dict[str, Any] = {name: getattr(args, name) for name in names}
    return {name: str(value) for name, value in values.items() if value is not None}
