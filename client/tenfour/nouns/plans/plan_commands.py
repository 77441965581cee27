"""The verbs of `tenfour plan`: import, status, rename, change, confirm, pause and so on."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tenfour.api.calls import given
from tenfour.api.plans import ImportOptions
from tenfour.client import Client
from tenfour.commands.display import clean, describe_task_state
from tenfour.commands.terminal import OK, REFUSED, note, pretty, say, text_of, wrong_usage
from tenfour.commands.work import add_not_before
from tenfour.http.problems import TenfourError
from tenfour.http.values import Json, instant
from tenfour.models import ImportedPlan, Plan, PlanTask
from tenfour.nouns.bulk import add_yes, is_confirmed, is_confirmed_on_terminal
from tenfour.nouns.output.columns import Row
from tenfour.nouns.plans.plan_preview import LEGEND, describe_pairs, draw_tree
from tenfour.nouns.reading import add_id, add_json
from tenfour.nouns.rows import Kind, find_id

KIND = Kind("/v1/plans", "plan", "plans", names="path", page="/plans/{id}/")


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="JSON, YAML, XML or Markdown; - reads it from stdin"
    )
    add_reading_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would change")
    parser.add_argument(
        "--mode",
        choices=["create", "merge", "replace"],
        help="for a changed plan: refuse it, add and update tasks, or also abort removed ones",
    )
    parser.add_argument("--tag", metavar="TAG", help="the tag of a tasks.json of Task Master")
    parser.add_argument("--json", action="store_true", help="print the whole response")


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--agent", metavar="NAME", help="the default agent, for tasks that name none"
    )
    parser.add_argument("--ref", metavar="REF", help="the plan's ref, if the file names none")
    parser.add_argument("--register", action="store_true", help="register unknown agents")
    parser.add_argument(
        "--allow-missing-needs", action="store_true", help="wait for plans that are imported later"
    )
    parser.add_argument(
        "--pair",
        action="append",
        metavar="FILE=STORED",
        help="which task a merge can't tell: task-2=task-1, task-2=new, or new for all of them",
    )


def read_options(args: argparse.Namespace) -> ImportOptions:
    """Return what `add_reading_options` has read."""
    return {
        "agent": args.agent,
        "ref": args.ref,
        "register": args.register or None,
        "allow_missing_needs": args.allow_missing_needs or None,
        "pairs": ",".join(args.pair) if args.pair else None,
    }


def add_change_options(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb == "restart":
        parser.add_argument(
            "--carry-over",
            metavar="TIME",
            help="tasks started at or after this time keep their attempts",
        )
    else:
        parser.add_argument("--reason", metavar="TEXT", help="stored in the journal")


def import_plan(args: argparse.Namespace) -> int:
    """Import a plan; print a line for each changed task, then the plan's id."""
    options = read_options(args) | {
        "mode": args.mode,
        "dry_run": args.dry_run or None,
        "tag": args.tag,
    }
    with Client(args.url) as tenfour:
        try:
            if args.file == "-":
                done = tenfour.plans.import_text(text_of("-"), **options)
            else:
                done = tenfour.plans.import_file(args.file, **options)
        except OSError as error:
            raise wrong_usage(f"{args.file} can't be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            number = bytes(error.object).count(b"\n", 0, error.start) + 1
            raise wrong_usage(f"{args.file} is not UTF-8 text (line {number}).") from error
        except TenfourError as error:
            for pair in describe_pairs(error.problem):
                note(clean(pair))
            raise
    shown = {warning for row in done.preview for warning in row["warnings"]}
    for warning in done.warnings:
        if args.json or warning not in shown:
            note(warning)
    if args.json:
        say(pretty(done.raw))
        return OK
    for line in draw_tree(done.preview):
        say(clean(line))
    if done.preview:
        say(LEGEND)
    for line in changes(done):
        say(clean(line))
    if done.unchanged:
        note("The plan is unchanged.")
    elif done.dry_run:
        note("Dry run: nothing was imported.")
    say(done.plan.id or done.plan.ref)
    return OK


def changes(done: ImportedPlan) -> list[str]:
    """Return a line for each task that differs from before."""
    diff = done.diff
    lines = [] if done.preview else [f"added      {ref}" for ref in diff.get("added", ())]
    for ref, names in diff.get("changed", {}).items():
        lines.append(f"changed    {ref}  {', '.join(names)}")
    for what in ("untouched", "left", "aborted"):
        lines += [f"{what:10} {ref}" for ref in diff.get(what, ())]
    lines += [f"done       {ref}  ticked in the file" for ref in done.ticked]
    for match in done.matches:
        sign = "guessed" if match["is_guess"] else "same"
        lines.append(
            f"{sign:10} {match['ref']}  is {match['file_ref']} '{match['title']}': "
            f"{match['reason']}"
        )
    return lines


def status(args: argparse.Namespace) -> int:
    """Print the plan and a line for each of its tasks."""
    with Client(args.url) as tenfour:
        found = tenfour.plans.get(find_id(tenfour, KIND, args.id))
    if args.json:
        args.json.print(found.raw)
        return OK
    say(clean(headline(found.plan)))
    for task in found.tasks:
        say(clean(line_of(task)))
    return OK


def forecast(args: argparse.Namespace) -> int:
    """Print when the plan will be done, what it will cost, and how often such forecasts held."""
    with Client(args.url) as tenfour:
        found = tenfour.plans.forecast(find_id(tenfour, KIND, args.id))
    if args.json:
        args.json.print(found.raw)
        return OK
    if found.ends_at is None:
        # a server of before has no sentence
        say(clean(f"No forecast. {found.sentence or found.reason or ''}"))
        return OK
    say(f"Done by {show(found.ends_at, describe_time)} (80%)")
    if found.cost:
        unit = describe_dollars if found.cost_unit == "usd" else describe_tokens
        say(f"Cost {show(found.cost, unit)} (80%), {unit(found.spent)} of it spent")
    say(f"From {found.cases} attempts of like tasks")
    plans, inside = found.calibration["plans"], found.calibration["inside"]
    if found.calibration["share"] is not None:
        say(f"{inside} of {plans} plans ended inside such an interval")
    return OK


def show(of: Json, describe: Callable[[Any], str]) -> str:
    low, median, high = (describe(of[name]) for name in ("low", "median", "high"))
    return f"{median}, between {low} and {high}"


def describe_time(at: str) -> str:
    time = instant(at)
    return f"{time.astimezone():%Y-%m-%d %H:%M}" if time else ""


def describe_dollars(amount: float) -> str:
    return f"${amount:,.2f}"


def describe_tokens(count: float) -> str:
    return f"{count:,.0f} tokens"


def headline(plan: Plan) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in plan.counts.items() if count)
    return " ".join(f"{plan.ref} {plan.title} {plan.state}, run {plan.run}: {counts}".split())


def line_of(task: PlanTask) -> str:
    state = describe_task_state(task.state, task.blocked_reason, task.raw.get("not_before"))
    tried = f" attempt {task.attempts} of {task.attempt_limit}" if task.attempts else ""
    needs = f" needs {', '.join(task.needs)}" if task.needs and task.state == "blocked" else ""
    return f"  {task.ref:16} {state}{tried}{needs}  {task.title}".rstrip()


def change_state(args: argparse.Namespace) -> int:
    """Pause, resume, abort or restart a plan; print its new state."""
    if args.verb == "abort" and not is_confirmed_on_terminal(args, f"Abort the plan {args.id}?"):
        return REFUSED
    with Client(args.url) as tenfour:
        id = find_id(tenfour, KIND, args.id)
        if args.verb == "restart":
            plan = tenfour.plans.restart(id, carry_over=args.carry_over)
        else:
            plan = getattr(tenfour.plans, args.verb)(id, reason=args.reason)
    say(pretty(plan.raw) if args.json else clean(headline(plan)))
    return OK


def rename(client: Client, id: str, args: argparse.Namespace) -> Row:
    """Change a plan's title as it is now; refused if the plan changes meanwhile."""
    version = client.plans.get(id).plan.version
    return client.plans.rename(id, args.title, version=version).raw


def add_change_arguments(parser: argparse.ArgumentParser) -> None:
    add_not_before(parser)
    parser.add_argument(
        "--exclusive-files",
        choices=["yes", "no"],
        help="run no two tasks at once that name the same files",
    )


def change(client: Client, id: str, args: argparse.Namespace) -> Row:
    """Change a plan as it is now; refused if it changes meanwhile."""
    exclusive = args.exclusive_files and args.exclusive_files == "yes"
    changes = given({"not_before": args.not_before, "exclusive_files": exclusive})
    if not changes:
        raise wrong_usage("Nothing to change.", "Use --not-before or --exclusive-files.")
    version = client.plans.get(id).plan.version
    return client.plans.change(id, version=version, **changes).raw


def add_confirm_arguments(parser: argparse.ArgumentParser) -> None:
    add_id(parser, KIND)
    parser.add_argument(
        "refs", metavar="REF", nargs="*", help="only these tasks' commands; all by default"
    )
    add_yes(parser)
    add_json(parser, "print the plan and its tasks as JSON")


def confirm(args: argparse.Namespace) -> int:
    """Show the proposed commands, ask, and confirm them: all of them or none."""
    with Client(args.url) as tenfour:
        id = find_id(tenfour, KIND, args.id)
        tasks = tenfour.plans.get(id).tasks
        proposed = {task.ref: task.proposed_command for task in tasks if task.proposed_command}
        if unknown := set(args.refs) - set(proposed):
            raise wrong_usage(
                f"{', '.join(sorted(unknown))}: no proposed command.",
                f"`tenfour plan confirm {args.id}` shows those of the plan.",
            )
        chosen = {ref: proposed[ref] for ref in args.refs or proposed}
        if not chosen:
            note("No command of this plan waits to be confirmed.")
            return OK
        for ref, command in chosen.items():
            note(f"{ref}: {command}")
        many = "this command" if len(chosen) == 1 else f"these {len(chosen)} commands"
        if not is_confirmed(args, f"Let agents run {many}?"):
            return REFUSED
        done = tenfour.plans.confirm(id, chosen)
    say(pretty(done.raw) if args.json else "\n".join(clean(ref) for ref in chosen))
    return OK
