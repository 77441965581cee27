"""From the mapping that a file holds to the canonical plan, with everything checked (pure)."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    PlanFile,
    PlanTask,
    UnknownNeed,
    check_plan_ref,
    cycle_in,
    pointed,
    told,
)

VERSION = 1
OBJECTIVE_LENGTH = 20_000
SEQUENTIAL, PARALLEL = "sequential", "parallel"
AUTO = "auto"
# what a plan may say for all of its tasks
DEFAULTS = ("agent", "priority", "max_attempts", "on_exhausted", "backoff", "lease_s", "timeout_s")
PLAN_KEYS = ("version", "ref", "title", "objective", "needs", "wave", "order", "tasks", *DEFAULTS)
# what an agent reads: kept in the payload
TEXTS = ("action", "question", "resume_signal")
LISTS = ("files", "context", "done")
TASK_KEYS = (
    *("ref", "title", "type", "needs", "idempotent", "non_retryable", "payload", "verify"),
    *("options", *TEXTS, *LISTS, *DEFAULTS),
)
BACKOFF_KEYS = ("base_delay_ms", "max_delay_ms", "exponential_base", "jitter")
OPTION_KEYS = ("name", "title", "description")
KINDS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    float: "a number",
    dict: "an object",
    list: "a list",
}


def canonical(found: Any, *, order: str = PARALLEL, agent: str = "") -> PlanFile:
    """The plan in `found`, the mapping that docs/plans.md tells of.

    `order` is the default of its format, `agent` is for tasks for which it names none.

    Raises Invalid, BadRef, DuplicateRef, UnknownNeed and DependencyCycle, each with a pointer.
    """
    if not isinstance(found, dict):
        raise Invalid("", "A plan is an object with 'ref' and 'tasks'.")
    known_keys(found, PLAN_KEYS, "")
    if of(found, "version", int, VERSION) != VERSION:
        raise Invalid("/version", f"This is a plan of version {VERSION} alone.")
    ref = check_plan_ref(of(found, "ref", str, ""))
    order = of(found, "order", str, order)
    if order not in (SEQUENTIAL, PARALLEL):
        raise Invalid("/order", f"order is '{SEQUENTIAL}' or '{PARALLEL}'.")
    listed = of(found, "tasks", list, [])
    if not 1 <= len(listed) <= MOST_TASKS:
        raise Invalid("/tasks", f"A plan has 1 to {MOST_TASKS} tasks; this one has {len(listed)}.")
    defaults = {name: found[name] for name in DEFAULTS if found.get(name) is not None}
    defaults.setdefault("agent", agent)
    tasks = [task_of(each, n, plan=ref, defaults=defaults) for n, each in enumerate(listed)]
    check_refs(tasks)
    if order == SEQUENTIAL:
        tasks = in_sequence(tasks)
    plan = PlanFile(
        ref=ref,
        title=short(of(found, "title", str, ""), "/title", TITLE_LENGTH),
        objective=short(of(found, "objective", str, ""), "/objective", OBJECTIVE_LENGTH),
        wave=maybe(found, "wave", int, ""),
        needs=needs_of(found, "", plan=ref),
        tasks=tuple(tasks),
    )
    check_needs(plan)
    return plan


def task_of(found: Any, n: int, *, plan: str, defaults: Mapping[str, Any]) -> PlanTask:
    at = f"/tasks/{n}"
    if not isinstance(found, dict):
        raise Invalid(at, "A task is an object.")
    known_keys(found, TASK_KEYS, at)
    given = {**defaults, **{name: value for name, value in found.items() if value is not None}}
    agent = of(given, "agent", str, "", at)
    if not agent:
        raise Invalid(f"{at}/agent", "Say which agent the task is for, here or for the whole plan.")
    on_exhausted = of(given, "on_exhausted", str, "escalate", at)
    if on_exhausted not in ("escalate", "dead_letter"):
        raise Invalid(f"{at}/on_exhausted", "on_exhausted is 'escalate' or 'dead_letter'.")
    return PlanTask(
        ref=f"{plan}:{task_ref(of(given, 'ref', str, f'task-{n + 1}', at), at, plan=plan)}",
        agent=agent,
        type=of(given, "type", str, AUTO, at),
        title=short(of(given, "title", str, "", at), f"{at}/title", TITLE_LENGTH),
        priority=of(given, "priority", int, 0, at),
        needs=needs_of(given, at, plan=plan),
        payload=payload_of(given, at),
        max_attempts=maybe(given, "max_attempts", int, at),
        on_exhausted=on_exhausted,
        backoff=backoff_of(given, at),
        lease_s=maybe(given, "lease_s", int, at),
        timeout_s=maybe(given, "timeout_s", int, at),
        idempotent=of(given, "idempotent", bool, True, at),
        non_retryable=of(given, "non_retryable", bool, False, at),
    )


def task_ref(ref: str, at: str, *, plan: str) -> str:
    """`task-3` of `task-3` or `03-01:task-3`."""
    own = ref.removeprefix(f"{plan}:")
    if not TASK_REF.fullmatch(own):
        raise pointed(
            BadRef,
            f"'{ref[:80]}' is no ref of a task in plan {plan}: task-{{n}}, n from 1.",
            f"{at}/ref",
        )
    return own


def payload_of(given: Mapping[str, Any], at: str) -> dict[str, Any]:
    payload = dict(of(given, "payload", dict, {}, at))
    for name in TEXTS:
        if text := of(given, name, str, "", at):
            payload[name] = text
    if len(str(payload.get("action", "")).encode()) > ACTION_BYTES:
        raise Invalid(f"{at}/action", f"An action has at most {ACTION_BYTES} bytes.")
    for name in LISTS:
        if texts := texts_of(given, name, at):
            payload[name] = texts
    verify = dict(of(given, "verify", dict, {}, at))
    if verify.get("command"):
        verify.setdefault("source", "declared")
    if verify:
        payload["verify"] = verify
    if options := options_of(given, at):
        payload["options"] = options
    return payload


def options_of(given: Mapping[str, Any], at: str) -> list[dict[str, str]]:
    """The answers that a checkpoint offers: each a text, or an object with a name."""
    options = []
    for n, each in enumerate(of(given, "options", list, [], at)):
        here = f"{at}/options/{n}"
        option = {"name": each} if isinstance(each, str) else each
        if not isinstance(option, dict):
            raise Invalid(here, "An option is a text, or an object with a name.")
        known_keys(option, OPTION_KEYS, here)
        name = of(option, "name", str, "", here)
        if not name.strip():
            raise Invalid(f"{here}/name", "An option has a name.")
        options.append({key: of(option, key, str, "", here) for key in option} | {"name": name})
    return options


def backoff_of(given: Mapping[str, Any], at: str) -> dict[str, Any]:
    """How long to wait between attempts: not at all, unless the file says so."""
    found = of(given, "backoff", dict, {}, at)
    known_keys(found, BACKOFF_KEYS, f"{at}/backoff")
    here = f"{at}/backoff"
    return {
        "base_delay_ms": of(found, "base_delay_ms", int, 0, here),
        "max_delay_ms": of(found, "max_delay_ms", int, 30_000, here),
        "exponential_base": float(of(found, "exponential_base", float, 2.0, here)),
        "jitter": of(found, "jitter", bool, True, here),
    }


# ---- needs


def needs_of(given: Mapping[str, Any], at: str, *, plan: str) -> tuple[str, ...]:
    """What is needed, as full refs, each once."""
    needs = []
    for n, need in enumerate(texts_of(given, "needs", at)):
        here = f"{at}/needs/{n}"
        of_plan, _, of_task = need.rpartition(":")
        if of_plan or TASK_REF.fullmatch(need):
            whole, part = of_plan or plan, of_task
            if not PLAN_REF.fullmatch(whole) or not TASK_REF.fullmatch(part):
                raise pointed(BadRef, f"'{need[:80]}' is no ref of a task.", here)
            needs.append(f"{whole}:{part}")
        else:
            needs.append(check_plan_ref(need, here))
    return tuple(dict.fromkeys(needs))


def in_sequence(tasks: Sequence[PlanTask]) -> list[PlanTask]:
    """Each task needs the one before it, too."""
    made = [tasks[0]]
    for task in tasks[1:]:
        needs = tuple(dict.fromkeys([*task.needs, made[-1].ref]))
        made.append(replace(task, needs=needs))
    return made


def check_refs(tasks: Sequence[PlanTask]) -> None:
    seen: dict[str, int] = {}
    for n, task in enumerate(tasks):
        first = seen.setdefault(task.ref, n)
        if first != n:
            raise pointed(
                DuplicateRef,
                f"Two tasks are called {task.ref}.",
                f"/tasks/{first}/ref",
                f"/tasks/{n}/ref",
            )


def check_needs(plan: PlanFile) -> None:
    """Refuse needs on tasks that this plan does not have, on itself, in a circle, or too many."""
    places = {task.ref: n for n, task in enumerate(plan.tasks)}
    asked = [("", plan.needs), *((f"/tasks/{n}", t.needs) for n, t in enumerate(plan.tasks))]
    for at, needs in asked:
        for n, need in enumerate(needs):
            own = need == plan.ref or need.startswith(f"{plan.ref}:")
            if own and (need not in places or not at):
                what = "is a part of this plan" if need in places else "is not in this plan"
                what = "is this plan itself" if need == plan.ref else what
                raise pointed(
                    UnknownNeed, f"{need} can't be needed here: it {what}.", f"{at}/needs/{n}"
                )
    edges = [(task.ref, need) for task in plan.tasks for need in task.needs]
    if len(edges) + len(plan.needs) > MOST_EDGES:
        raise Invalid("/tasks", f"A plan has at most {MOST_EDGES} needs; here are {len(edges)}.")
    if cycle := cycle_in((task, need) for task, need in edges if need in places):
        pointers = [f"/tasks/{places[ref]}/needs" for ref in cycle[:-1]]
        raise pointed(DependencyCycle, f"Nothing can begin: {told(cycle)}.", *pointers, cycle=cycle)


# ---- values


def known_keys(found: Mapping[Any, Any], known: Sequence[str], at: str) -> None:
    for key in found:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            meant = f" Did you mean '{near[0]}'?" if near else f" Known are: {', '.join(known)}."
            raise Invalid(f"{at}/{key}", f"'{key}' is not known here.{meant}")


def of(found: Mapping[str, Any], name: str, kind: type, default: Any, at: str = "") -> Any:
    """The value of that name, of that kind, or the default where there is none."""
    value = found.get(name)
    if value is None:
        return default
    kinds = (int, float) if kind is float else kind
    if not isinstance(value, kinds) or (isinstance(value, bool) and kind is not bool):
        quotes = " Put it into quotes." if kind is str else ""
        raise Invalid(f"{at}/{name}", f"{name} is {KINDS[kind]}.{quotes}")
    return value


def maybe(found: Mapping[str, Any], name: str, kind: type, at: str) -> Any:
    return of(found, name, kind, None, at)


def texts_of(found: Mapping[str, Any], name: str, at: str) -> list[str]:
    """A list of texts, or one text alone."""
    value = found.get(name)
    if isinstance(value, str):
        return [value]
    texts = of(found, name, list, [], at)
    for n, text in enumerate(texts):
        if not isinstance(text, str):
            raise Invalid(f"{at}/{name}/{n}", f"{name} is a list of texts. Put it into quotes.")
    return list(texts)


def short(text: str, pointer: str, most: int) -> str:
    if len(text) > most:
        raise Invalid(pointer, f"{pointer.rpartition('/')[2]} has at most {most} characters.")
    return text
