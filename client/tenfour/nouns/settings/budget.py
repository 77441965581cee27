"""`tenfour budget`: list, show, set, grant, remove, and the prices of models."""

from __future__ import annotations

import argparse
import re
from typing import Any

from tenfour.api.calls import given, json_object
from tenfour.client import Client
from tenfour.commands.terminal import OK, pretty, say, wrong_usage
from tenfour.http.core import Call
from tenfour.nouns.noun import Noun, Parser, Verb
from tenfour.nouns.output.columns import Row, computed, identity, plain, time, whole
from tenfour.nouns.output.json_output import add_json_output
from tenfour.nouns.output.record import Layout
from tenfour.nouns.reading import Filter, add_json, make_action, make_list, make_show, print_rows
from tenfour.nouns.rows import Kind, act, get

KIND = Kind("/v1/budgets", "budget", "budgets", title="scope", page="/settings/budgets/")
PRICES = Kind("/v1/prices", "price", "prices", title="model", noun="budget")
AMOUNT = re.compile(r"(\$)?\s*+([\d,_]++(?:\.\d++)?)\s*+([km])?\s*+(tokens?|usd)?", re.I | re.ASCII)
FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}


def _amount(number: float, unit: str) -> str:
    return f"{number:,.2f} USD" if unit == "usd" else f"{number:,.0f} tokens"


def _owner(row: Row) -> str:
    return str(row["plan_ref"] or row["task"] or "the project")


def _used(row: Row) -> str:
    return f"{_amount(row['used'], row['unit'])} ({int(100 * row['share'])}%)"


def _limit(row: Row) -> str:
    period = f"per day ({row['zone']})" if row["period"] == "day" else "in total"
    return f"{_amount(row['limit'], row['unit'])} {period}"


def _status(row: Row) -> str:
    return "used up" if row["used_up"] else "open"


COLUMNS = (
    identity(),
    plain("scope"),
    computed("of", _owner),
    computed("used", _used),
    computed("limit", _limit),
    computed("status", _status),
    plain("at_limit", "at the limit"),
)
LAYOUT = Layout(
    computed("of", _owner),
    (
        plain("scope"),
        computed("status", _status),
        computed("used", _used),
        computed("limit", _limit),
        plain("granted"),
        plain("at_limit", "at the limit"),
        time("until", "until"),
        plain("unpriced", "reports without a price"),
        plain("unpriced_model", "last model without one"),
        whole("plan"),
        whole("task"),
        whole("escalation"),
        plain("created_by", "set by"),
        time("created_at"),
        whole(),
    ),
    (),
)
PRICE_COLUMNS = (
    plain("model", stretch=True),
    plain("starts_on", "from"),
    plain("input"),
    plain("output"),
    plain("cache_read", "cache read"),
    plain("cache_write", "cache write"),
    plain("set_by", "set by"),
    identity(),
)


def read_amount(text: str) -> dict[str, Any]:
    """Return a limit as the API's field for it.

    >>> read_amount("500k tokens"), read_amount("5 USD")
    ({'tokens': 500000}, {'usd': 5.0})
    """
    found = AMOUNT.fullmatch(text.strip())
    if found is None or not (found[1] or found[4]):
        raise wrong_usage("Give the amount with its unit.", "Such as '500000 tokens' or '5 USD'.")
    number = float(re.sub("[,_]", "", found[2])) * FACTORS[(found[3] or "").lower()]
    if (found[4] or "").lower().startswith("token"):
        return {"tokens": int(number)}
    return {"usd": number}


def add_set_arguments(parser: Parser) -> None:
    parser.add_argument(
        "amount", metavar="AMOUNT", help="the limit, such as '500000 tokens' or '5 USD'"
    )
    parser.add_argument("--plan", metavar="REF", help="of this plan: its ref or id")
    parser.add_argument("--task", metavar="ID", help="of this task; without either, the project's")
    parser.add_argument("--period", choices=["day", "total"], help="total if missing")
    parser.add_argument(
        "--at-limit", choices=["ask", "stop"], help="ask a person (the default), or only wait"
    )
    parser.add_argument("--zone", metavar="ZONE", help="the zone of its day, such as Europe/Berlin")
    add_json(parser, "print the budget as JSON")


def set_budget(args: argparse.Namespace) -> int:
    """Set a budget; print its id."""
    body = read_amount(args.amount) | {
        name: getattr(args, name) for name in ("plan", "task", "period", "at_limit", "zone")
    }
    with Client(args.url) as client:
        row: Row = client.perform(Call("PUT", KIND.path, json_object, given(body)))
    say(pretty(row) if args.json else str(row["id"]))
    return OK


def add_amount(parser: Parser) -> None:
    parser.add_argument(
        "amount", metavar="AMOUNT", help="how much more, such as '500000 tokens' or '5 USD'"
    )


def describe_budget(row: Row) -> str:
    return f"{row['id']} {_used(row)} of {_limit(row)}"


def delete(client: Client, path: str) -> Row:
    return client.perform(Call("DELETE", path, json_object))


def describe_removed(row: Row) -> str:
    return f"{row['removed']} removed"


def list_prices(args: argparse.Namespace) -> int:
    """Print the prices of models."""
    with Client(args.url) as client:
        rows = get(client, PRICES.path)["data"]
    print_rows(rows, PRICE_COLUMNS, plural=PRICES.plural, output=args.json)
    return OK


def add_price_arguments(parser: Parser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the name that reports send")
    parser.add_argument("input", metavar="INPUT", type=float, help="USD per million tokens")
    parser.add_argument("output", metavar="OUTPUT", type=float, help="USD per million tokens")
    parser.add_argument("--cache-read", type=float, metavar="USD", help="INPUT if missing")
    parser.add_argument("--cache-write", type=float, metavar="USD", help="INPUT if missing")
    parser.add_argument(
        "--from", dest="starts_on", metavar="DAY", help="the first day; today if missing"
    )
    add_json(parser, "print the price as JSON")


def set_price(args: argparse.Namespace) -> int:
    """Set the price of a model; print its id."""
    names = ("model", "input", "output", "cache_read", "cache_write", "starts_on")
    body = given({name: getattr(args, name) for name in names})
    with Client(args.url) as client:
        row: Row = client.perform(Call("PUT", PRICES.path, json_object, body))
    say(pretty(row) if args.json else str(row["id"]))
    return OK


def add_price_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="its whole id, as `tenfour budget prices` has it")
    add_json(parser, "print the response as JSON")


def remove_price(args: argparse.Namespace) -> int:
    """Remove one of the project's own prices."""
    with Client(args.url) as client:
        row = delete(client, PRICES.path_of(args.id))
    say(pretty(row) if args.json else describe_removed(row))
    return OK


NOUN = Noun(
    "budget",
    "Budgets: limits of tasks, plans and the project in tokens or dollars, and models' prices.",
    {
        "list": make_list(
            KIND,
            COLUMNS,
            "tasks:read",
            Filter("scope", "SCOPE", "task, plan or project"),
            Filter("plan", "REF", "of this plan: its ref or id"),
            Filter("task", "ID", "of this task"),
        ),
        "show": make_show(KIND, LAYOUT, "tasks:read"),
        "set": Verb(
            "Set a budget; prints its id.",
            "escalations:resolve",
            set_budget,
            add_set_arguments,
            example="tenfour budget set '2M tokens' --plan 03-01 --period day",
        ),
        "grant": make_action(
            KIND,
            "Grant more of a budget; per day, for today.",
            "escalations:resolve",
            lambda client, id, args: act(
                client, KIND.path_of(id, "grant"), {"amount": args.amount}
            ),
            add=add_amount,
            say_done=describe_budget,
            example="tenfour budget grant 0164ecc5 '500000 tokens'",
        ),
        "remove": make_action(
            KIND,
            "Remove a budget: no task waits for it any more.",
            "escalations:resolve",
            lambda client, id, args: delete(client, KIND.path_of(id)),
            say_done=describe_removed,
            question="Remove the budget {id}?",
        ),
        "prices": Verb(
            "List the prices of models, in USD per million tokens.",
            "tasks:read",
            list_prices,
            lambda parser: add_json_output(parser, "print the prices as a JSON array"),
        ),
        "set-price": Verb(
            "Set the price of a model from a day on; prints its id.",
            "escalations:resolve",
            set_price,
            add_price_arguments,
            example="tenfour budget set-price claude-sonnet-4-5 3 15 --cache-read 0.3",
        ),
        "remove-price": Verb(
            "Remove one of the project's own prices.",
            "escalations:resolve",
            remove_price,
            add_price_id,
        ),
    },
)
