"""`tenfour standing`: list, show, create, change, pause, resume, retire, try."""

from __future__ import annotations

import argparse
from typing import Any

from tenfour.api.calls import json_object as read_object
from tenfour.client import Client
from tenfour.commands.display import one_line
from tenfour.commands.terminal import (
    NOTHING,
    OK,
    json_object,
    note,
    pretty,
    say,
    text_of,
    wrong_usage,
)
from tenfour.http.core import Call
from tenfour.nouns.noun import Noun, Parser, Verb, choose
from tenfour.nouns.output.columns import Row, computed, identity, plain, state, time, whole
from tenfour.nouns.output.record import Layout
from tenfour.nouns.reading import (
    Filter,
    add_id,
    add_json,
    add_reason,
    make_action,
    make_list,
    make_show,
)
from tenfour.nouns.rows import Kind, act, find_id, get

KIND = Kind(
    "/v1/standing-instructions",
    "rule",
    "rules",
    title="content",
    noun="standing",
    page="/instructions/standing/{id}/",
)
CHANGE = """Give an object, such as '{"hold_stop": true}'."""
OBJECT = """Give an object, such as '{"path": "src/a.py"}'."""


def _trigger(row: Row) -> str:
    on = row["on"]
    return " ".join(str(on[name]) for name in ("event", "type") if on.get(name))


COLUMNS = (
    identity(),
    state(),
    computed("on", _trigger),
    plain("agent"),
    plain("content", "instruction", stretch=True),
    plain("hold_stop", "holds the stop"),
    time("updated_at"),
)
LAYOUT = Layout(
    plain("content", "instruction"),
    (
        state(),
        computed("on", _trigger),
        plain("on.match", "match"),
        whole("on.plan", "plan"),
        plain("on.interval_s", "interval in s"),
        plain("agent"),
        plain("expect.type", "expects"),
        plain("once_per", "once per"),
        plain("hold_stop", "holds the stop"),
        plain("max_retries", "reminders"),
        plain("on_failed", "on failed"),
        plain("created_by.name", "created by"),
        time("created_at"),
        time("activated_at"),
        time("retired_at"),
        whole(),
    ),
)


def describe_rule(row: Row) -> str:
    return one_line(f"{row['id']} {row['state']}")


def add_create_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="the rule in JSON; - reads it from stdin")
    parser.add_argument("--draft", action="store_true", help="save it without switching it on")
    add_json(parser, "print the rule as JSON")


def create(args: argparse.Namespace) -> int:
    """Create a rule; print its id."""
    body = json_object(read_rule(args.file), what="The rule", hint=OBJECT)
    if not isinstance(body.get("on"), dict) or not isinstance(body.get("content"), str):
        raise wrong_usage("The rule needs an object 'on' and a text 'content'.")
    if args.draft:
        body["paused"] = True
    with Client(args.url) as client:
        row = act(client, KIND.path, body)
    say(pretty(row) if args.json else str(row["id"]))
    return OK


def read_rule(file: str) -> str:
    if file == "-":
        return text_of("-")
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except OSError as error:
        raise wrong_usage(f"{file} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise wrong_usage(f"{file} is not UTF-8 text.") from error


def add_file(parser: Parser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="the fields to change, in JSON; - reads them from stdin"
    )


def change(client: Client, id: str, args: argparse.Namespace) -> Row:
    """Change a rule as it is now; refused if it changes meanwhile."""
    changes = read_object_of(args.file)
    version = get(client, KIND.path_of(id))["version"]
    headers = {"If-Match": f'"v{version}"'}
    return client.perform(Call("PATCH", KIND.path_of(id), read_object, changes, headers=headers))


def read_object_of(file: str) -> dict[str, Any]:
    return json_object(read_rule(file), what="The change", hint=CHANGE)


def add_try_arguments(parser: Parser) -> None:
    add_id(parser, KIND)
    parser.add_argument("type", metavar="TYPE", help="the signal's type, such as fs_write")
    parser.add_argument("data", metavar="JSON", nargs="?", help="its data; - reads it from stdin")
    add_json(parser, "print the trial as JSON")


def try_rule(args: argparse.Namespace) -> int:
    """Print each condition; exit with 3 if the rule would not fire."""
    data = json_object(text_of(args.data), what="The data", hint=OBJECT) if args.data else {}
    with Client(args.url) as client:
        path = KIND.path_of(find_id(client, KIND, args.id), "try")
        trial = act(client, path, {"event": "signal", "type": args.type, "data": data})
    if args.json:
        say(pretty(trial))
    for condition in [] if args.json else trial["conditions"]:
        say(one_line(f"{'yes' if condition['holds'] else 'no'} {condition['text']}"))
    note("It would fire." if trial["fires"] else "It would not fire.")
    return OK if trial["fires"] else NOTHING


def retire(client: Client, id: str, args: argparse.Namespace) -> Row:
    params = choose(args, "reason")
    return client.perform(Call("DELETE", KIND.path_of(id), read_object, params=params))


NOUN = Noun(
    "standing",
    "Standing instructions: rules that send an instruction whenever something happens.",
    {
        "list": make_list(
            KIND,
            COLUMNS,
            "instructions:read",
            Filter("state", "STATES", "active, paused, draft, retired; not retired by default"),
            Filter("agent", "NAME", "of this agent"),
        ),
        "show": make_show(KIND, LAYOUT, "instructions:read"),
        "create": Verb(
            "Create a rule from JSON; prints its id.",
            "instructions:write",
            create,
            add_create_arguments,
        ),
        "change": make_action(
            KIND,
            "Change a rule's fields; the ones that are not given stay the same.",
            "instructions:write",
            change,
            add=add_file,
            say_done=describe_rule,
        ),
        "pause": make_action(
            KIND,
            "Send nothing until the rule is resumed.",
            "instructions:write",
            lambda client, id, args: act(client, KIND.path_of(id, "pause")),
            say_done=describe_rule,
        ),
        "resume": make_action(
            KIND,
            "Switch on a paused rule or a draft.",
            "instructions:write",
            lambda client, id, args: act(client, KIND.path_of(id, "resume")),
            say_done=describe_rule,
        ),
        "retire": make_action(
            KIND,
            "End a rule permanently; its record stays.",
            "instructions:write",
            retire,
            add=add_reason,
            say_done=describe_rule,
            question="End the rule {id} permanently?",
        ),
        "try": Verb(
            "Try a rule on a sample signal; sends nothing, exits with 3 if it would not fire.",
            "instructions:read",
            try_rule,
            add_try_arguments,
        ),
    },
)
