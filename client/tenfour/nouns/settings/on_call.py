"""`tenfour on-call`: escalation policies and rotas, and who is on call."""

from __future__ import annotations

import argparse
from typing import Any

from tenfour.api.calls import given, json_object
from tenfour.client import Client
from tenfour.commands.terminal import OK, pretty, say, wrong_usage
from tenfour.http.core import Call
from tenfour.nouns.noun import Noun, Parser, Verb
from tenfour.nouns.output.columns import Column, Row, computed, identity, plain, time, whole
from tenfour.nouns.output.record import Layout
from tenfour.nouns.reading import add_json, make_action, make_list, make_show
from tenfour.nouns.rows import Kind, act, get

PAGE = "/settings/on-call/"
POLICIES = Kind(
    "/v1/escalation-policies", "policy", "policies", title="name", noun="on-call", page=PAGE
)
ROTAS = Kind("/v1/rotas", "rota", "rotas", title="name", noun="on-call", page=PAGE)
READ, WRITE = "events:read", "escalations:resolve"
MINUTE = 60


def _lines(name: str) -> Column:
    return Column(name, lambda row, _: "\n".join(row[name]))


def _within(row: Row) -> str:
    return f"{row['answer_within_s'] // MINUTE} min"


def _on_call_now(row: Row) -> str:
    return ", ".join(row["on_call"][0]["people"]) if row["on_call"] else ""


def _on_call(row: Row) -> str:
    return "\n".join(
        f"{each['starts_at']} – {each['ends_at']}  {', '.join(each['people'])}"
        for each in row["on_call"]
    )


POLICY_COLUMNS = (
    identity(),
    plain("position"),
    plain("name"),
    plain("conditions", stretch=True),
    computed("within", _within),
    plain("enabled"),
)
POLICY = Layout(
    plain("name"),
    (
        plain("conditions", "when"),
        computed("within", _within),
        plain("position"),
        plain("enabled"),
        plain("answer_by", "default answer written by"),
        plain("changed_by"),
        time("updated_at"),
        whole(),
    ),
    (_lines("steps"),),
)
ROTA_COLUMNS = (
    identity(),
    plain("name"),
    plain("timezone"),
    computed("on call", _on_call_now, stretch=True),
)
ROTA = Layout(
    plain("name"),
    (
        plain("timezone"),
        computed("on call", _on_call_now),
        computed("otherwise", lambda row: ", ".join(row["fallback"])),
        plain("changed_by"),
        time("updated_at"),
        whole(),
    ),
    (_lines("shifts"), Column("next 7 days", lambda row, _: _on_call(row))),
)


def add_policy_options(parser: Parser) -> None:
    parser.add_argument(
        "--when", metavar="CONDITIONS", help="such as 'agent:deploy-* severity:high'"
    )
    parser.add_argument(
        "--within", type=int, metavar="MINUTES", help="open after that, it is overdue"
    )
    parser.add_argument(
        "--step",
        action="append",
        metavar="STEP",
        help="'0 tell rota:nights', '15 remind' or '60 answer retry'; repeatable, in order",
    )
    parser.add_argument("--position", type=int, metavar="N", help="the lowest that fits applies")
    parser.add_argument("--off", action="store_true", help="switch the policy off")
    parser.add_argument("--on", action="store_true", help="switch the policy on")


def policy_body(args: argparse.Namespace) -> dict[str, Any]:
    within = args.within
    return given(
        {
            "conditions": args.when,
            "answer_within_s": None if within is None else within * MINUTE,
            "steps": args.step,
            "position": args.position,
            "enabled": False if args.off else True if args.on else None,
        }
    )


def add_rota_options(parser: Parser) -> None:
    parser.add_argument("--timezone", metavar="ZONE", help="such as Europe/Berlin")
    parser.add_argument(
        "--shift",
        action="append",
        metavar="SHIFT",
        help="'mon-fri 18:00-08:00 mara, jon'; repeatable, the first that holds counts",
    )
    parser.add_argument(
        "--fallback", metavar="PEOPLE", help="who is on call otherwise, separated by commas"
    )


def rota_body(args: argparse.Namespace) -> dict[str, Any]:
    people = [name.strip() for name in args.fallback.split(",")] if args.fallback else None
    return given({"timezone": args.timezone, "shifts": args.shift, "fallback": people})


def make_create(kind: Kind, add_options: Any, body_of: Any, example: str) -> Verb:
    def add_arguments(parser: Parser) -> None:
        parser.add_argument("name", metavar="NAME", help=f"the {kind.name}'s name")
        add_options(parser)
        add_json(parser, "print the response as JSON")

    def run(args: argparse.Namespace) -> int:
        with Client(args.url) as client:
            row = act(client, kind.path, {"name": args.name, **body_of(args)})
        say(pretty(row) if args.json else str(row["id"]))
        return OK

    return Verb(f"Create a {kind.name}; prints its id.", WRITE, run, add_arguments, example=example)


def make_change(kind: Kind, add_options: Any, body_of: Any, example: str) -> Verb:
    def change(client: Client, id: str, args: argparse.Namespace) -> Row:
        changes = body_of(args)
        if not changes:
            raise wrong_usage("Nothing to change.", "Use one of the options.")
        version = get(client, kind.path_of(id))["version"]
        headers = {"If-Match": f'"v{version}"'}
        return client.perform(
            Call("PATCH", kind.path_of(id), json_object, changes, headers=headers)
        )

    return make_action(
        kind,
        f"Change a {kind.name} as it is now; refused if it changes meanwhile.",
        WRITE,
        change,
        add=add_options,
        say_done=lambda row: f"{row['id']} {row['name']}",
        example=example,
    )


def make_delete(kind: Kind, help: str) -> Verb:
    return make_action(
        kind,
        help,
        WRITE,
        lambda client, id, args: client.perform(Call("DELETE", kind.path_of(id), json_object)),
        say_done=lambda row: f"{row['id']} deleted",
        question=f"Delete the {kind.name} {{id}}?",
    )


NOUN = Noun(
    "on-call",
    "Escalation policies and rotas: who is told of an escalation, and what comes next.",
    {
        "policies": make_list(POLICIES, POLICY_COLUMNS, READ),
        "policy": make_show(POLICIES, POLICY, READ),
        "add-policy": make_create(
            POLICIES,
            add_policy_options,
            policy_body,
            "tenfour on-call add-policy nights --within 60 --step '0 tell role:operator' "
            "--step '30 remind'",
        ),
        "change-policy": make_change(
            POLICIES,
            add_policy_options,
            policy_body,
            "tenfour on-call change-policy 0164ecc5 --off",
        ),
        "delete-policy": make_delete(POLICIES, "Delete a policy; its escalations get another."),
        "rotas": make_list(ROTAS, ROTA_COLUMNS, READ),
        "rota": make_show(ROTAS, ROTA, READ),
        "add-rota": make_create(
            ROTAS,
            add_rota_options,
            rota_body,
            "tenfour on-call add-rota nights --timezone Europe/Berlin "
            "--shift 'daily 22:00-06:00 jon' --fallback mara",
        ),
        "change-rota": make_change(
            ROTAS,
            add_rota_options,
            rota_body,
            "tenfour on-call change-rota 0164ecc5 --fallback jon",
        ),
        "delete-rota": make_delete(ROTAS, "Delete a rota that no policy names."),
    },
)
