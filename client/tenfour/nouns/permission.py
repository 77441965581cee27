"""`tenfour permission`: list, show, allow, deny, and the rules that decide like people."""

from __future__ import annotations

import argparse
from typing import Any

from tenfour.client import Client
from tenfour.commands.display import one_line
from tenfour.commands.terminal import OK, note, pretty, say, text_of, wrong_usage
from tenfour.nouns.escalation import KIND as ESCALATIONS
from tenfour.nouns.escalation import describe_resolution
from tenfour.nouns.noun import Noun, Parser, Verb
from tenfour.nouns.output.columns import Column, Row, computed, identity, plain, state, time, whole
from tenfour.nouns.output.record import Layout
from tenfour.nouns.reading import Filter, add_json, add_reason, make_action, make_list, make_show
from tenfour.nouns.rows import Kind, act, get

KIND = Kind("/v1/permissions", "permission", "permissions")
RULES = Kind("/v1/permission-rules", "rule", "rules", title="matcher", noun="permission")
SILENCE = {
    "terminal_waits": "the terminal asks meanwhile",
    "terminal_asks": "the terminal asks then",
    "program_decides": "the terminal asks, or the call is refused",
    "refuses": "the call is refused",
}
COLUMNS = (
    identity(),
    state(),
    plain("agent"),
    plain("tool"),
    plain("title", "call", stretch=True),
    time("asked_at"),
    time("expires_at"),
)


def _answer(row: Row) -> str:
    answer = row["answer"] or {}
    effect = "allowed" if answer.get("allow") is True else "denied"
    words = (f"{effect} by {answer['by']}" if answer else "", answer.get("message"))
    return ": ".join(str(word) for word in words if word)


def _marks(row: Row) -> str:
    return "\n".join(str(mark["text"]) for mark in row["marks"])


def _input(row: Row) -> str:
    return "\n".join(f"{name}: {value}" for name, value in row["input"].items())


LAYOUT = Layout(
    plain("title", "call"),
    (
        state(),
        plain("tool"),
        plain("agent"),
        plain("folder"),
        computed("answer", _answer),
        computed("without an answer", lambda row: SILENCE.get(row["when_silent"], "")),
        plain("proposed", "rule for it"),
        whole("task"),
        whole("escalation"),
        time("asked_at"),
        time("expires_at"),
        time("closed_at"),
        plain("url"),
        whole(),
    ),
    (
        Column("input", lambda row, _: _input(row)),
        Column("marks", lambda row, _: _marks(row)),
        plain("said"),
    ),
)


def add_message(parser: Parser) -> None:
    parser.add_argument(
        "message",
        metavar="MESSAGE",
        nargs="?",
        help="what the agent should know or do instead; - reads it from stdin",
    )


def allow(client: Client, id: str, args: argparse.Namespace) -> Row:
    return answer(client, id, {"action": "allow"})


def deny(client: Client, id: str, args: argparse.Namespace) -> Row:
    text = text_of(args.message) if args.message else None
    return answer(client, id, {"action": "deny", "instruction": text})


def answer(client: Client, id: str, body: dict[str, Any]) -> Row:
    """Answer the escalation that asks people about a call."""
    asked = get(client, KIND.path_of(id))
    if not asked["escalation"]:
        raise wrong_usage(f"No one was asked about this call: it is {asked['state']}.")
    return act(client, ESCALATIONS.path_of(asked["escalation"], "resolve"), body)


# ---- rules


def _effect(row: Row) -> str:
    return "allow" if row["allows"] else "deny"


RULE_COLUMNS = (
    identity(),
    state(),
    computed("effect", _effect),
    plain("tool"),
    plain("matcher", stretch=True),
    plain("agent"),
    plain("hits"),
    time("last_used_at"),
    time("expires_at"),
)


def add_rule_arguments(parser: Parser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool, such as Bash or Edit")
    parser.add_argument(
        "matcher",
        metavar="MATCHER",
        nargs="?",
        help="command words, or a path; * is one word, ** at the end any number",
    )
    parser.add_argument("--deny", action="store_true", help="deny the calls instead of allowing")
    parser.add_argument("--message", metavar="TEXT", help="with --deny, what the agent is told")
    parser.add_argument("--agent", metavar="NAME", help="only calls of this agent")
    add_json(parser, "print the response as JSON")


def body_of(args: argparse.Namespace) -> dict[str, Any]:
    names = ("tool", "matcher", "message", "agent")
    return {"allows": not args.deny, **{name: getattr(args, name) for name in names}}


def add_rule(args: argparse.Namespace) -> int:
    """Put a rule into effect; print its id."""
    with Client(args.url) as client:
        row = act(client, RULES.path, body_of(args))
    say(pretty(row) if args.json else str(row["id"]))
    return OK


def try_rule(args: argparse.Namespace) -> int:
    """Print the calls that a rule would have decided."""
    with Client(args.url) as client:
        trial = act(client, f"{RULES.path}/trial", body_of(args))
    if args.json:
        say(pretty(trial))
    for call in [] if args.json else trial["calls"]:
        say(one_line(call))
    note(
        f"It would have decided {trial['matched']} of {trial['tried']} calls in 30 days; "
        f"people decided {trial['against']} of them the other way."
    )
    return OK


NOUN = Noun(
    "permission",
    "Permission requests: calls that agents may make only if a person or a rule allows them.",
    {
        "list": make_list(
            KIND,
            COLUMNS,
            "escalations:read",
            Filter("state", "STATES", "such as waiting, allowed or denied"),
            Filter("agent", "NAME", "of this agent"),
            Filter("rule", "ID", "decided by this rule"),
        ),
        "show": make_show(KIND, LAYOUT, "escalations:read"),
        "allow": make_action(
            KIND, "Allow a call once.", "escalations:resolve", allow, say_done=describe_resolution
        ),
        "deny": make_action(
            KIND,
            "Deny a call; the agent reads the message.",
            "escalations:resolve",
            deny,
            add=add_message,
            say_done=describe_resolution,
            example="tenfour permission deny 0164ecc5 'use pnpm instead'",
        ),
        "rules": make_list(
            RULES,
            RULE_COLUMNS,
            "escalations:read",
            Filter("state", "STATE", "active, revoked or expired"),
        ),
        "add-rule": Verb(
            "Put a rule into effect; prints its id.",
            "escalations:resolve",
            add_rule,
            add_rule_arguments,
            example="tenfour permission add-rule Bash 'npm test'",
        ),
        "revoke-rule": make_action(
            RULES,
            "End a rule: people are asked again.",
            "escalations:resolve",
            lambda client, id, args: act(
                client, RULES.path_of(id, "revoke"), {"reason": args.reason}
            ),
            add=add_reason,
            question="End the rule {id}?",
        ),
        "try-rule": Verb(
            "Try a rule on the calls of the last 30 days; changes nothing.",
            "escalations:read",
            try_rule,
            add_rule_arguments,
        ),
    },
)
