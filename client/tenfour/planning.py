"""The commands of `tenfour plan`: import, status, pause, resume, abort, restart."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from tenfour.client import Client
from tenfour.models import ImportedPlan, Plan, PlanTask
from tenfour.problems import TenfourError
from tenfour.terminal import OK, note, pretty, say, text_of, wrong_usage


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    part = verbs.add_parser("import", help="import a plan from a file, or update it")
    part.add_argument(
        "file", metavar="FILE", help="JSON, YAML, XML or Markdown; - reads it from stdin"
    )
    part.add_argument("--agent", metavar="NAME", help="the default agent, for tasks that name none")
    part.add_argument("--ref", metavar="REF", help="the plan's ref, if the file names none")
    part.add_argument("--dry-run", action="store_true", help="show what would change")
    part.add_argument(
        "--mode",
        choices=["create", "merge", "replace"],
        help="for a changed plan: refuse it, add and update tasks, or also abort removed ones",
    )
    part.add_argument("--register", action="store_true", help="register unknown agents")
    part.add_argument(
        "--allow-missing-needs", action="store_true", help="wait for plans that are imported later"
    )
    part.add_argument("--json", action="store_true", help="print the whole response")
    part = verbs.add_parser("status", help="print a plan and its tasks")
    part.add_argument("ref", metavar="REF", help="such as 03-01, or its id")
    part.add_argument("--json", action="store_true", help="print the whole response")
    for verb, does in {
        "pause": "start no further tasks",
        "resume": "start tasks again",
        "abort": "stop it; finished tasks stay finished",
    }.items():
        part = verbs.add_parser(verb, help=does)
        part.add_argument("ref", metavar="REF", help="such as 03-01, or its id")
        part.add_argument("--reason", metavar="TEXT")
    part = verbs.add_parser("restart", help="run unfinished tasks again")
    part.add_argument("ref", metavar="REF", help="such as 03-01, or its id")
    part.add_argument(
        "--carry-over",
        metavar="TIME",
        help="tasks started at or after this time keep their attempts",
    )


def plan(args: argparse.Namespace) -> int:
    """Run one of the verbs of `tenfour plan`."""
    return VERBS[args.verb](args)


def import_plan(args: argparse.Namespace) -> int:
    """Import a plan; print a line for each changed task, then the plan's id."""
    options = {
        "mode": args.mode,
        "agent": args.agent,
        "ref": args.ref,
        "dry_run": args.dry_run or None,
        "register": args.register or None,
        "allow_missing_needs": args.allow_missing_needs or None,
    }
    with Client(args.url) as tenfour:
        if args.file == "-":
            done = tenfour.plans.import_text(text_of("-"), **options)
        else:
            try:
                done = tenfour.plans.import_file(args.file, **options)
            except OSError as error:
                raise wrong_usage(f"{args.file} can't be read: {error.strerror}.") from error
            except UnicodeDecodeError as error:
                raise wrong_usage(f"{args.file} is not UTF-8 text.") from error
    for warning in done.warnings:
        note(warning)
    if args.json:
        say(pretty(done.raw))
        return OK
    for line in changes(done):
        say(line)
    if done.unchanged:
        note("The plan is unchanged.")
    elif done.dry_run:
        note("Dry run: nothing was imported.")
    say(done.plan.id or done.plan.ref)
    return OK


def changes(done: ImportedPlan) -> list[str]:
    """Return a line for each task that differs from before."""
    diff = done.diff
    lines = [f"added      {ref}" for ref in diff.get("added", ())]
    for ref, names in diff.get("changed", {}).items():
        lines.append(f"changed    {ref}  {', '.join(names)}")
    for what in ("untouched", "aborted"):
        lines += [f"{what:10} {ref}" for ref in diff.get(what, ())]
    return lines


def status(args: argparse.Namespace) -> int:
    """Print the plan and a line for each of its tasks."""
    with Client(args.url) as tenfour:
        found = tenfour.plans.get(id_of(tenfour, args.ref))
    if args.json:
        say(pretty(found.raw))
        return OK
    say(headline(found.plan))
    for task in found.tasks:
        say(line_of(task))
    return OK


def headline(plan: Plan) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in plan.counts.items() if count)
    return " ".join(f"{plan.ref} {plan.title} {plan.state}, run {plan.run}: {counts}".split())


def line_of(task: PlanTask) -> str:
    why = f" ({task.blocked_reason})" if task.blocked_reason else ""
    tried = f" attempt {task.attempts} of {task.attempt_limit}" if task.attempts else ""
    needs = f" needs {', '.join(task.needs)}" if task.needs and task.state == "blocked" else ""
    return f"  {task.ref:16} {task.state}{why}{tried}{needs}  {task.title}".rstrip()


def change_state(args: argparse.Namespace) -> int:
    """Pause, resume, abort or restart a plan; print its new state."""
    with Client(args.url) as tenfour:
        id = id_of(tenfour, args.ref)
        if args.verb == "restart":
            plan = tenfour.plans.restart(id, carry_over=args.carry_over)
        else:
            plan = getattr(tenfour.plans, args.verb)(id, reason=args.reason)
    say(headline(plan))
    return OK


def id_of(tenfour: Client, ref: str) -> str:
    """Return the id of the plan with that ref; an id is returned as it is."""
    if len(ref) == 36:
        return ref
    for plan in tenfour.plans.list(ref=ref):
        if plan.id:
            return plan.id
    raise TenfourError(
        f"No plan {ref} is visible to this token.",
        status=404,
        code="not_found",
        title="Not found",
        hint="Import it with `tenfour plan import`.",
    )


VERBS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "import": import_plan,
    "status": status,
    "pause": change_state,
    "resume": change_state,
    "abort": change_state,
    "restart": change_state,
}
