"""`tenfour escalation` (esc): list, show, and what people do with questions."""

from __future__ import annotations

import argparse

from tenfour.client import Client
from tenfour.commands.terminal import json_object, note, text_of, wrong_usage
from tenfour.nouns.noun import Noun, Parser
from tenfour.nouns.output.columns import Column, Row, computed, identity, plain, state, time, whole
from tenfour.nouns.output.record import Layout
from tenfour.nouns.reading import (
    Filter,
    make_action,
    make_assign,
    make_comment,
    make_list,
    make_show,
)
from tenfour.nouns.rows import Kind, act

KIND = Kind("/v1/escalations", "escalation", "escalations", page="/escalations/{id}/")
COLUMNS = (
    identity(),
    state(),
    plain("severity"),
    plain("reason"),
    plain("agent"),
    plain("title", stretch=True),
    plain("assignee"),
    time("opened_at"),
)


def _options(row: Row) -> str:
    return "\n".join(f"{each['name']}: {each['title']}" for each in row["options"])


def _choices(row: Row) -> str:
    return "\n".join(f"{each['name']}: {each.get('title') or ''}" for each in row["choices"])


def _answer(row: Row) -> str:
    resolution = row["resolution"] or {}
    words = (resolution.get("action"), resolution.get("instruction"), resolution.get("note"))
    return ": ".join(str(word) for word in words if word)


LAYOUT = Layout(
    plain("title"),
    (
        state(),
        plain("severity"),
        plain("reason"),
        plain("agent"),
        plain("assignee"),
        computed("answer", _answer),
        whole("task"),
        whole("plan"),
        whole("instruction"),
        time("opened_at"),
        time("snoozed_until"),
        time("expires_at"),
        time("closed_at"),
        plain("url"),
        whole(),
    ),
    (
        plain("question"),
        plain("message"),
        Column("choices", lambda row, _: _choices(row)),
        Column("answers", lambda row, _: _options(row) if row["state"] == "open" else ""),
    ),
)


def add_resolve_arguments(parser: Parser) -> None:
    parser.add_argument(
        "text",
        metavar="ANSWER",
        nargs="?",
        help="retry, skip, abort, 'fix: trim first', 'grant: 5 USD', or the answer; - reads it "
        "from stdin",
    )
    parser.add_argument("--response", metavar="JSON", help="the answer to a question with a schema")
    parser.add_argument("--note", metavar="TEXT", help="why; stored with the answer")
    parser.add_argument(
        "--dependents",
        choices=["continue", "block", "skip"],
        help="with skip or abort: what happens to the tasks that need it",
    )


def resolve(client: Client, id: str, args: argparse.Namespace) -> Row:
    """Answer with one line, or with the values of a response."""
    if args.text is None and args.response is None:
        raise wrong_usage("An answer is missing.", "Give ANSWER, such as 'fix: …', or --response.")
    response = args.response and json_object(text_of(args.response), what="The response")
    body = {
        "text": args.text and text_of(args.text),
        "action": "answer" if response and not args.text else None,
        "response": response,
        "note": args.note,
        "dependents": args.dependents,
    }
    row = act(client, KIND.path_of(id, "resolve"), body)
    for warning in row.get("warnings", ()):
        note(warning)
    return row


def describe_resolution(row: Row) -> str:
    escalation, decision = row["escalation"], row.get("decision") or {}
    return f"{escalation['id']} {escalation['state']} {decision.get('decision', '')}".rstrip()


def add_until(parser: Parser) -> None:
    parser.add_argument(
        "until",
        metavar="UNTIL",
        nargs="?",
        help="when it comes back, such as 2026-12-01T09:00Z; without it, at once",
    )


NOUN = Noun(
    "escalation",
    "Escalations: questions to people, and their answers. `esc` is short for escalation.",
    {
        "list": make_list(
            KIND,
            COLUMNS,
            "escalations:read",
            Filter("state", "STATE", "open, resolved, expired or withdrawn"),
            Filter("reason", "REASON", "such as max_retries_exceeded"),
            Filter("plan", "REF", "of this plan: its ref or id"),
            Filter("agent", "NAME", "of this agent"),
            Filter("assignee", "USER", "assigned to this user"),
        ),
        "show": make_show(KIND, LAYOUT, "escalations:read"),
        "resolve": make_action(
            KIND,
            "Answer an escalation.",
            "escalations:resolve",
            resolve,
            add=add_resolve_arguments,
            say_done=describe_resolution,
            example="tenfour esc resolve 0164ecc5 'fix: trim the input first'",
        ),
        "undo": make_action(
            KIND,
            "Undo an answer that was sent from the page a few seconds ago.",
            "escalations:resolve",
            lambda client, id, args: act(client, KIND.path_of(id, "undo")),
            say_done=lambda row: describe_resolution({"escalation": row, **row}),
        ),
        "assign": make_assign(KIND),
        "snooze": make_action(
            KIND,
            "Hide an escalation from the inbox until a time.",
            "escalations:resolve",
            lambda client, id, args: act(client, KIND.path_of(id, "snooze"), {"until": args.until}),
            add=add_until,
            say_done=lambda row: f"{row['id']} {row['snoozed_until'] or 'in the inbox'}",
        ),
        "comment": make_comment(KIND),
        "withdraw": make_action(
            KIND,
            "Withdraw a question that needs no answer; its task is queued again.",
            "tasks:work",
            lambda client, id, args: act(client, KIND.path_of(id, "withdraw")),
        ),
    },
)
