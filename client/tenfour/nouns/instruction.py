"""`tenfour instruction`: list, show, send, ack, cancel."""

from __future__ import annotations

import argparse

from tenfour.client import Client
from tenfour.commands import instruction_commands
from tenfour.nouns.noun import Noun, Parser, Verb
from tenfour.nouns.output.columns import Row, computed, identity, plain, state, time, whole
from tenfour.nouns.output.record import Layout
from tenfour.nouns.reading import Filter, add_id, add_reason, make_action, make_list, make_show
from tenfour.nouns.rows import Kind, act, find_id

KIND = Kind(
    "/v1/instructions", "instruction", "instructions", title="content", page="/instructions/{id}/"
)
DELIVERIES = computed("deliveries", lambda row: f"{row['deliveries']} of {_allowed(row)}")
COLUMNS = (
    identity(),
    state(),
    plain("agent"),
    plain("content", "instruction", stretch=True),
    plain("deliveries"),
    time("queued_at"),
)
LAYOUT = Layout(
    plain("content", "instruction"),
    (
        state(),
        plain("agent"),
        DELIVERIES,
        plain("urgency"),
        plain("outcome"),
        plain("note"),
        plain("sent_by.name", "sent by"),
        plain("expect.type", "expects"),
        plain("on_failed", "on failed"),
        whole("task"),
        whole("rule", "standing"),
        time("queued_at"),
        time("delivered_at"),
        plain("delivered_via"),
        time("read_at"),
        time("acknowledged_at"),
        time("failed_at"),
        time("cancelled_at"),
        whole(),
    ),
    (
        # what the agent reads, where that is more than what was sent
        computed("text", lambda row: str(row["text"] if row["text"] != row["content"] else "")),
        computed("sent", lambda row: str(row["content"] if "\n" in row["content"] else "")),
    ),
)


def _allowed(row: Row) -> int:
    return int(row["max_retries"]) + 1 if row["tracked"] else 1


def ack(args: argparse.Namespace) -> int:
    """Acknowledge instructions, whose ids may be short."""
    with Client(args.url) as client:
        args.ids = [find_id(client, KIND, id) for id in args.ids]
    return instruction_commands.ack(args)


def add_ack_arguments(parser: Parser) -> None:
    add_id(parser, KIND, many=True)
    instruction_commands.add_ack_options(parser)


NOUN = Noun(
    "instruction",
    "Instructions: texts sent to agents, with reminders until they are acknowledged.",
    {
        "list": make_list(
            KIND,
            COLUMNS,
            "instructions:read",
            Filter("state", "STATES", "queued, delivered, acknowledged, failed, cancelled"),
            Filter("agent", "NAME", "of this agent"),
        ),
        "show": make_show(KIND, LAYOUT, "instructions:read"),
        "send": Verb(
            "Send an instruction to an agent; prints its id.",
            "instructions:write",
            instruction_commands.send,
            instruction_commands.add_send_arguments,
            instruction_commands.rewrite_send_arguments,
        ),
        "ack": Verb("Acknowledge instructions.", "instructions:ack", ack, add_ack_arguments),
        "cancel": make_action(
            KIND,
            "Cancel an instruction that is not settled yet.",
            "instructions:write",
            lambda client, id, args: act(
                client, KIND.path_of(id, "cancel"), {"reason": args.reason}
            ),
            add=add_reason,
        ),
    },
)
