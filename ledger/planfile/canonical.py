"""Validate a plan file's mapping and build the canonical plan from it (pure)."""

import difflib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ledger.errors import Invalid
from ledger.planfile.model import (
    ACTION_BYTES,
    MOST_EDGES,
    MOST_TASKS,
    PLAN_REF,
    TASK_REF,
    TITLE_LENGTH,
    BadRef,
    DependencyCycle,
    DuplicateRef,
    Origin,
    PlanFile,
    PlanTask,
    UnknownNeed,
    check_plan_ref,
    complete_task_ref,
    cycle_detail,
    find_cycle,
    refusal_at,
)
from ledger.planfile.verification import describe_verification

VERSION = 1
OBJECTIVE_LENGTH = 20_000
SEQUENTIAL, PARALLEL = "sequential", "parallel"
AUTO = "auto"
# Task fields that a plan may set for all its tasks.
DEFAULTS = (
    "agent",
    "priority",
    "max_attempts",
    "on_exhausted",
    "evidence",
    "retry_on",
    "backoff",
    "lease_s",
    "timeout_s",
)
PLAN_KEYS = (
    *("version", "ref", "title", "objective", "needs", "depends_on", "wave", "order", "tasks"),
    *("not_before", "exclusive_files", "budget"),
    *DEFAULTS,
)
# Fields for the agent to read; stored in the payload.
TEXTS = ("action", "question", "resume_signal")
LISTS = ("files", "context", "done")
TASK_KEYS = (
    *("ref", "id", "title", "type", "needs", "depends_on", "idempotent", "non_retryable"),
    *("not_before", "budget", "payload", "verify", "options", *TEXTS, *LISTS, *DEFAULTS),
)
BUDGET_KEYS = ("tokens", "usd", "period", "at_limit", "zone")
BUDGET_LENGTH, MOST_BUDGET = 64, 10**15
BACKOFF_KEYS = ("base_delay_ms", "max_delay_ms", "exponential_base", "jitter")
OPTION_KEYS = ("name", "title", "description")
KINDS: dict[type, str] = {
    str: "a string",
    int: "an integer",
    bool: "a boolean",
    float: "a number",
    dict: "an object",
    list: "a list",
}


def canonical(
    value: Any,
    *,
    order: str = PARALLEL,
    agent: str = "",
    origins: Sequence[Origin] = (),
    lines: Sequence[int] = (),
) -> PlanFile:
    """Return the canonical plan for a mapping in the format of docs/plans.md.

    `order` is the file format's default, `agent` the default agent for tasks that name none,
    `origins` what the file says of each task beside its content, and `lines` where each one begins.

    Raises Invalid, BadRef, DuplicateRef, UnknownNeed and DependencyCycle, each with a pointer.
    """
    if not isinstance(value, dict):
        raise Invalid("", "A plan must be an object with 'ref' and 'tasks'.")
    refuse_unknown_keys(value, PLAN_KEYS, "")
    if read_value(value, "version", int, VERSION) != VERSION:
        raise Invalid("/version", f"version must be {VERSION}.")
    ref = check_plan_ref(read_value(value, "ref", str, ""))
    order = read_value(value, "order", str, order)
    if order not in (SEQUENTIAL, PARALLEL):
        raise Invalid("/order", f"order must be '{SEQUENTIAL}' or '{PARALLEL}'.")
    items = read_value(value, "tasks", list, [])
    done = {n for n, origin in enumerate(origins) if origin.is_done}
    check_count(len(items), len(items) - len(done))
    defaults = {name: value[name] for name in DEFAULTS if value.get(name) is not None}
    defaults.setdefault("agent", agent)
    read = [
        read_done_task(item, plan=ref, origin=origins[n])
        if n in done
        else read_task(item, n, plan=ref, defaults=defaults)
        for n, item in enumerate(items)
    ]
    if origins:
        read = [
            task if origin.is_done else replace(task, origin=origin)
            for task, origin in zip(read, origins, strict=True)
        ]
    elif lines:
        read = [
            replace(task, origin=replace(task.origin, line=line))
            for task, line in zip(read, lines, strict=True)
        ]
    check_refs(read)
    finished = tuple(task for n, task in enumerate(read) if n in done)
    tasks = drop_needs([task for n, task in enumerate(read) if n not in done], finished)
    if order == SEQUENTIAL:
        tasks = add_sequence(tasks)
    plan = PlanFile(
        ref=ref,
        title=check_length(read_value(value, "title", str, ""), "/title", TITLE_LENGTH),
        objective=check_length(
            read_value(value, "objective", str, ""), "/objective", OBJECTIVE_LENGTH
        ),
        wave=read_value(value, "wave", int, None),
        not_before=read_time(value, "not_before"),
        exclusive_files=read_value(value, "exclusive_files", bool, None),
        budget=read_budget(value),
        needs=read_needs(value, "", plan=ref),
        tasks=tuple(tasks),
        done=finished,
    )
    check_needs(plan)
    return plan


def check_count(all_: int, open_: int) -> None:
    if not all_ or open_ > MOST_TASKS:
        raise Invalid("/tasks", f"A plan must have 1 to {MOST_TASKS} tasks; this one has {open_}.")


def read_task(item: Any, n: int, *, plan: str, defaults: Mapping[str, Any]) -> PlanTask:
    at = f"/tasks/{n}"
    if not isinstance(item, dict):
        raise Invalid(at, "A task must be an object.")
    refuse_unknown_keys(item, TASK_KEYS, at)
    task = {**defaults, **{name: value for name, value in item.items() if value is not None}}
    agent = read_value(task, "agent", str, "", at)
    if not agent:
        raise Invalid(f"{at}/agent", "Set an agent for this task or for the whole plan.")
    on_exhausted = read_value(task, "on_exhausted", str, "escalate", at)
    if on_exhausted not in ("escalate", "dead_letter"):
        raise Invalid(f"{at}/on_exhausted", "on_exhausted must be 'escalate' or 'dead_letter'.")
    evidence = read_value(task, "evidence", str, None, at)
    if evidence not in (None, "record", "ask", "require"):
        raise Invalid(f"{at}/evidence", "evidence must be 'record', 'ask' or 'require'.")
    retry_on = read_value(task, "retry_on", str, None, at)
    if retry_on not in (None, "any", "same", "other"):
        raise Invalid(f"{at}/retry_on", "retry_on must be 'any', 'same' or 'other'.")
    own_ref = read_task_ref(task, n, plan=plan)
    title = read_value(task, "title", str, "", at)
    if "title" in item and not title.strip():
        raise Invalid(f"{at}/title", "A title must not be empty. Write one, or remove the key.")
    return PlanTask(
        ref=f"{plan}:{own_ref or f'task-{n + 1}'}",
        agent=agent,
        type=read_value(task, "type", str, AUTO, at),
        title=check_length(title, f"{at}/title", TITLE_LENGTH),
        priority=read_value(task, "priority", int, 0, at),
        needs=read_needs(task, at, plan=plan),
        payload=read_payload(task, at),
        max_attempts=read_value(task, "max_attempts", int, None, at),
        on_exhausted=on_exhausted,
        evidence=evidence,
        retry_on=retry_on,
        backoff=read_backoff(task, at),
        lease_s=read_value(task, "lease_s", int, None, at),
        timeout_s=read_value(task, "timeout_s", int, None, at),
        idempotent=read_value(task, "idempotent", bool, True, at),
        non_retryable=read_value(task, "non_retryable", bool, False, at),
        not_before=read_time(task, "not_before", at),
        budget=read_budget(task, at),
        origin=Origin(place=n, number=own_ref, is_id=bool(own_ref)),
    )


def read_done_task(item: Mapping[str, Any], *, plan: str, origin: Origin) -> PlanTask:
    # An import reads only what identifies a task that is done.
    action = {"action": item["action"]} if item.get("action") else {}
    return PlanTask(
        ref=f"{plan}:{item['ref']}",
        agent="",
        type=AUTO,
        title=item["title"],
        payload={**item.get("payload", {}), **action},
        origin=origin,
    )


def read_task_ref(task: Mapping[str, Any], n: int, *, plan: str) -> str:
    """Return `task-3` for the ref or id `3`, `T003`, `task-3` or `03-01:task-3`, or "" without one.

    A task without a ref is numbered by its place. Raises BadRef for any other form: a number that
    the author did not write could be mistaken for another task's.
    """
    at, found = f"/tasks/{n}", {}
    for name in ("ref", "id"):
        if task.get(name) is None:
            continue
        text = read_ref(task[name], f"{at}/{name}")
        found[name] = complete_task_ref(text, plan)
        if not TASK_REF.fullmatch(found[name]):
            raise refusal_at(
                BadRef,
                f"'{text[:80]}' is not a task's ref in plan {plan}. Use task-1, task-2, …",
                f"{at}/{name}",
            )
    if len(set(found.values())) > 1:
        raise refusal_at(
            BadRef,
            f"This task has the ref {found['ref']} and the id {found['id']}. Remove one.",
            f"{at}/id",
        )
    return found.get("ref") or found.get("id") or ""


def read_ref(value: Any, pointer: str) -> str:
    # YAML reads an unquoted number as an integer.
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Invalid(pointer, "A ref must be a string or a number. Put it in quotes.")
    return str(value)


def read_payload(task: Mapping[str, Any], at: str) -> dict[str, Any]:
    payload = dict(read_value(task, "payload", dict, {}, at))
    for name in TEXTS:
        if text := read_value(task, name, str, "", at):
            payload[name] = text
    if len(str(payload.get("action", "")).encode()) > ACTION_BYTES:
        raise Invalid(f"{at}/action", f"An action must have at most {ACTION_BYTES} bytes.")
    for name in LISTS:
        if strings := read_strings(task, name, at):
            payload[name] = strings
    if isinstance(verify := task.get("verify"), str):
        verify = describe_verification(verify)
    else:
        verify = dict(read_value(task, "verify", dict, {}, at))
    if verify.get("command"):
        verify.setdefault("source", "declared")
    if verify:
        payload["verify"] = verify
    if options := read_options(task, at):
        payload["options"] = options
    return payload


def read_options(task: Mapping[str, Any], at: str) -> list[dict[str, str]]:
    # Each option is a string or an object with a name.
    options = []
    for n, each in enumerate(read_value(task, "options", list, [], at)):
        here = f"{at}/options/{n}"
        option = {"name": each} if isinstance(each, str) else each
        if not isinstance(option, dict):
            raise Invalid(here, "An option must be a string or an object with a name.")
        refuse_unknown_keys(option, OPTION_KEYS, here)
        name = read_value(option, "name", str, "", here)
        if not name.strip():
            raise Invalid(f"{here}/name", "An option must have a name.")
        options.append(
            {key: read_value(option, key, str, "", here) for key in option} | {"name": name}
        )
    return options


def read_backoff(task: Mapping[str, Any], at: str) -> dict[str, Any]:
    # A plan's tasks have no delays by default.
    backoff = read_value(task, "backoff", dict, {}, at)
    here = f"{at}/backoff"
    refuse_unknown_keys(backoff, BACKOFF_KEYS, here)
    return {
        "base_delay_ms": read_value(backoff, "base_delay_ms", int, 0, here),
        "max_delay_ms": read_value(backoff, "max_delay_ms", int, 30_000, here),
        "exponential_base": float(read_value(backoff, "exponential_base", float, 2.0, here)),
        "jitter": read_value(backoff, "jitter", bool, True, here),
    }


# ---- needs


def read_needs(values: Mapping[str, Any], at: str, *, plan: str) -> tuple[str, ...]:
    # `depends_on` is the same key as `needs`.
    needs = []
    for name in ("needs", "depends_on"):
        for n, need in enumerate(list_refs(values.get(name), f"{at}/{name}")):
            needs.append(complete_need(need, plan=plan, pointer=f"{at}/{name}/{n}"))
    return tuple(dict.fromkeys(needs))


def list_refs(value: Any, pointer: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list):
        return [read_ref(each, f"{pointer}/{n}") for n, each in enumerate(value)]
    return [part.strip() for part in read_ref(value, pointer).split(",") if part.strip()]


def complete_need(need: str, *, plan: str, pointer: str) -> str:
    prefix, _, _ = need.rpartition(":")
    task_ref = complete_task_ref(need.removeprefix(f"{prefix}:") if prefix else need, plan)
    if not prefix and not TASK_REF.fullmatch(task_ref):
        return check_plan_ref(need, pointer)
    plan_ref = prefix or plan
    if not PLAN_REF.fullmatch(plan_ref) or not TASK_REF.fullmatch(task_ref):
        raise refusal_at(BadRef, f"'{need[:80]}' is not a task's ref.", pointer)
    return f"{plan_ref}:{task_ref}"


def drop_needs(tasks: Sequence[PlanTask], done: Sequence[PlanTask]) -> list[PlanTask]:
    met = {task.ref for task in done}
    return [
        replace(task, needs=tuple(need for need in task.needs if need not in met))
        if met.intersection(task.needs)
        else task
        for task in tasks
    ]


def add_sequence(tasks: Sequence[PlanTask]) -> list[PlanTask]:
    """Return the tasks with each one also needing the task before it."""
    # Neighbors of one section that run beside each other need what the first of them needs, and the
    # next task needs all of them.
    groups: list[list[PlanTask]] = []
    for task in tasks:
        last = groups[-1][-1].origin if groups else Origin()
        is_beside = last.runs_beside and task.origin.runs_beside
        if is_beside and last.section == task.origin.section:
            groups[-1].append(task)
        else:
            groups.append([task])
    pairs = sum(len(a) * len(b) for a, b in itertools.pairwise(groups))
    if pairs + sum(len(task.needs) for task in tasks) > MOST_EDGES:
        groups = [[task] for task in tasks]
    sequence: list[PlanTask] = []
    before: list[str] = []
    for group in groups:
        for task in group:
            sequence.append(replace(task, needs=tuple(dict.fromkeys([*task.needs, *before]))))
        before = [task.ref for task in group]
    return sequence


def check_refs(tasks: Sequence[PlanTask]) -> None:
    seen: dict[str, int] = {}
    for n, task in enumerate(tasks):
        first = seen.setdefault(task.ref, n)
        if first != n:
            raise refusal_at(
                DuplicateRef,
                f"Two tasks have the ref {task.ref}.",
                f"/tasks/{first}/ref",
                f"/tasks/{n}/ref",
            )


def check_needs(plan: PlanFile) -> None:
    places = {task.ref: n for n, task in enumerate(plan.tasks)}
    groups = [("", plan.needs), *((f"/tasks/{n}", t.needs) for n, t in enumerate(plan.tasks))]
    for at, needs in groups:
        for n, need in enumerate(needs):
            own = need == plan.ref or need.startswith(f"{plan.ref}:")
            if own and (need not in places or not at):
                problem = "is part of this plan" if need in places else "is not in this plan"
                problem = "is this plan" if need == plan.ref else problem
                raise refusal_at(
                    UnknownNeed, f"{need} can't be a need here: it {problem}.", f"{at}/needs/{n}"
                )
    edges = [(task.ref, need) for task in plan.tasks for need in task.needs]
    if len(edges) + len(plan.needs) > MOST_EDGES:
        raise Invalid(
            "/tasks", f"A plan must have at most {MOST_EDGES} needs; this one has {len(edges)}."
        )
    if cycle := find_cycle((task, need) for task, need in edges if need in places):
        pointers = [f"/tasks/{places[ref]}/needs" for ref in cycle[:-1]]
        raise refusal_at(DependencyCycle, cycle_detail(cycle), *pointers, cycle=cycle)


# ---- values


def refuse_unknown_keys(values: Mapping[Any, Any], known: Sequence[str], at: str) -> None:
    for key in values:
        if key not in known:
            raise Invalid(f"{at}/{key}", suggest_key(str(key), known))


def suggest_key(key: str, known: Sequence[str]) -> str:
    """Return the sentences about an unknown key, with the nearest known one.

    >>> suggest_key("verfy", ["verify", "done"])
    "Unknown key 'verfy'. Did you mean 'verify'?"
    """
    near = difflib.get_close_matches(key, known, n=1)
    meant = f"Did you mean '{near[0]}'?" if near else f"Use one of: {', '.join(known)}."
    return f"Unknown key '{key}'. {meant}"


def read_value(values: Mapping[str, Any], name: str, kind: type, default: Any, at: str = "") -> Any:
    """Return the value with this name, or the default; raise Invalid for another type."""
    value = values.get(name)
    if value is None:
        return default
    kinds = (int, float) if kind is float else kind
    if not isinstance(value, kinds) or (isinstance(value, bool) and kind is not bool):
        quotes = " Put it in quotes." if kind is str else ""
        raise Invalid(f"{at}/{name}", f"{name} must be {KINDS[kind]}.{quotes}")
    return value


def read_time(values: Mapping[str, Any], name: str, at: str = "") -> datetime | None:
    text = read_value(values, name, str, "", at)
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    example = "2026-10-12T18:00:00Z"
    raise Invalid(f"{at}/{name}", f"{name} must be a time with its zone, such as {example}.")


def read_budget(values: Mapping[str, Any], at: str = "") -> str | dict[str, Any] | None:
    # `retries.budgets` reads the amount when the plan is imported.
    value, here = values.get("budget"), f"{at}/budget"
    if value is None or value == "":
        return None
    if isinstance(value, dict):
        refuse_unknown_keys(value, BUDGET_KEYS, here)
    terms = value.values() if isinstance(value, dict) else [value]
    if not all(map(is_budget_term, terms)) or not isinstance(value, str | dict):
        example = "'500000 tokens', '5 USD' or {usd: 5, period: day}"
        raise Invalid(here, f"budget must be an amount with its unit, such as {example}.")
    return value


def is_budget_term(value: Any) -> bool:
    # What the database can't store, such as an infinite number, is refused here.
    if isinstance(value, str):
        return value.isprintable() and len(value) <= BUDGET_LENGTH
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (is_number and abs(value) <= MOST_BUDGET)


def read_strings(values: Mapping[str, Any], name: str, at: str) -> list[str]:
    # A single string is a list of one.
    value = values.get(name)
    if isinstance(value, str):
        return [value]
    strings = read_value(values, name, list, [], at)
    for n, text in enumerate(strings):
        if not isinstance(text, str):
            raise Invalid(
                f"{at}/{name}/{n}", f"{name} must be a list of strings. Put this value in quotes."
            )
    return list(strings)


def check_length(text: str, pointer: str, most: int) -> str:
    if len(text) > most:
        raise Invalid(pointer, f"{pointer.rpartition('/')[2]} must have at most {most} characters.")
    return text
