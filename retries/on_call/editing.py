"""Create, change and delete the escalation policies and the rotas of a project."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import available_timezones

from django.db import IntegrityError, transaction
from django.db.models import Max

from ledger import journal
from ledger.authorization.roles import Role
from ledger.database import sql
from ledger.errors import Invalid, NotFound, VersionMismatch
from ledger.journal import Kind, Stamp
from ledger.models import Project
from ledger.secrets.redaction import holds_secret, redacted
from retries.escalations import choices
from retries.models import EscalationPolicy, Rota
from retries.models.escalation import UNROUTED
from retries.on_call.directories import read_directory
from retries.on_call.rotas import Shift, Unreadable, format_shift, parse_shift
from retries.on_call.steps import (
    Directory,
    Step,
    StepAction,
    format_step,
    parse_conditions,
    parse_step,
)
from retries.states import PERMISSION_ANSWERS, Answer, EscalationState

NAME_LENGTH, CONDITIONS_LENGTH = 64, 500
ANSWER_WITHIN_S = (60, 2_592_000)
MOST_STEPS, MOST_SHIFTS, MOST_ROWS = 20, 50, 100
# of an installation's own columns; the others are those that a person sets
POLICY_FIELDS = ("name", "position", "conditions", "answer_within_s", "steps", "enabled")
TIMED = ("answer_within_s", "steps")  # what says when something is due
ROTA_FIELDS = ("name", "timezone", "shifts", "fallback")
KINDS: Mapping[type, tuple[str, Kind, Kind, Kind]] = {
    EscalationPolicy: (
        "escalation policy",
        Kind.ESCALATION_POLICY_CREATED,
        Kind.ESCALATION_POLICY_UPDATED,
        Kind.ESCALATION_POLICY_DELETED,
    ),
    Rota: ("rota", Kind.ROTA_CREATED, Kind.ROTA_UPDATED, Kind.ROTA_DELETED),
}
Noun = TypeVar("Noun", EscalationPolicy, Rota)

# Open escalations without a policy look for one again.
ROUTE_AGAIN = f"""update retries_escalation
    set next_step_at = '{UNROUTED.isoformat()}'::timestamptz
    where state = '{EscalationState.OPEN}' and project_id = %(project)s and policy_id is null"""
# Its own go on with its new steps. Each keeps its distance to the step before: a step that is added
# after the last one is not due at once, however old the escalation is.
KEEP_DISTANCE = f"""update retries_escalation e set answer_due_at = e.opened_at + %(within)s,
        next_step_at = case
        when %(were)s::int[] = %(are)s::int[] then e.next_step_at
        when s.new is null then null
        when e.next_step_at is null or s.old is null
            then %(now)s + (s.new - coalesce(s.before, 0)) * interval '1 minute'
        else e.next_step_at + (s.new - s.old) * interval '1 minute' end
    from (select at, (%(are)s::int[])[at + 1] as new, (%(were)s::int[])[at + 1] as old,
            (%(are)s::int[])[at] as before
        from generate_series(0, {MOST_STEPS}) at) s
    where e.state = '{EscalationState.OPEN}' and e.policy_id = %(policy)s
        and s.at = e.policy_step"""
LEAVE = f"""update retries_escalation set policy_id = null, policy_step = 0, answer_due_at = null,
        next_step_at = '{UNROUTED.isoformat()}'::timestamptz
    where state = '{EscalationState.OPEN}' and policy_id = %(policy)s"""


def list_policies(project: Project | UUID) -> list[EscalationPolicy]:
    rows = EscalationPolicy.objects.filter(project=project).order_by("position", "id")
    return list(rows)


def create_policy(project: Project, *, stamp: Stamp, **values: Any) -> EscalationPolicy:
    last = EscalationPolicy.objects.filter(project=project).aggregate(last=Max("position"))["last"]
    values = {"position": (last or 0) + 1, "conditions": "", "enabled": True} | values
    policy = EscalationPolicy(project=project, answer_by_name="", **values)
    return save(policy, POLICY_FIELDS, before={}, stamp=stamp)


def create_rota(project: Project, *, stamp: Stamp, **values: Any) -> Rota:
    rota = Rota(project=project, **{"timezone": "UTC", "fallback": []} | values)
    return save(rota, ROTA_FIELDS, before={}, stamp=stamp)


def update_policy(policy_id: UUID, *, version: int | None, stamp: Stamp, **changes: Any) -> Any:
    return update(EscalationPolicy, policy_id, POLICY_FIELDS, changes, version, stamp)


def update_rota(rota_id: UUID, *, version: int | None, stamp: Stamp, **changes: Any) -> Any:
    return update(Rota, rota_id, ROTA_FIELDS, changes, version, stamp)


@transaction.atomic
def delete(model: type[Noun], id: UUID, *, stamp: Stamp) -> Noun:
    """Delete a policy, whose open escalations look for another, or a rota that none names."""
    row = lock(model, id)
    if isinstance(row, Rota):
        named = [each.name for each in list_policies(row.project_id) if names_rota(each, row.name)]
        if named:
            raise Invalid(
                "/id", f"The policy '{named[0]}' names the rota: change its steps, then delete it."
            )
    else:
        sql.run(LEAVE, policy=row.pk)
    record(row, KINDS[model][3], stamp=stamp)
    model.objects.filter(pk=row.pk).delete()
    return row


@transaction.atomic
def update(
    model: type[Noun],
    id: UUID,
    fields: Sequence[str],
    changes: Mapping[str, Any],
    version: int | None,
    stamp: Stamp,
) -> Noun:
    """Change a row's values; keep those that are not named.

    `version` is the version that the caller has read; None changes any version.
    """
    row = lock(model, id)
    if version is not None and row.version != version:
        raise VersionMismatch(
            f"The {KINDS[model][0]} is at version {row.version}, not {version}.",
            current=row.version,
        )
    before = {name: getattr(row, name) for name in fields}
    for name, value in changes.items():
        setattr(row, name, value)
    row.version += 1
    return save(row, fields, before=before, stamp=stamp)


def lock(model: type[Noun], id: UUID) -> Noun:
    found = model.objects.select_for_update().filter(pk=id).first()
    if found is None:
        raise NotFound(f"There is no {KINDS[model][0]} {id} here.")
    return found


@transaction.atomic
def save(row: Noun, fields: Sequence[str], *, before: Mapping[str, Any], stamp: Stamp) -> Noun:
    noun, created, updated, _ = KINDS[type(row)]
    if not before:
        held = type(row).objects.filter(project_id=row.project_id).count()
        if held >= MOST_ROWS:
            raise Invalid("/name", f"A project has at most {MOST_ROWS} of them.")
        row.created_at = stamp.at
    check_name(row.name)
    if isinstance(row, Rota):
        check_rota(row, before)
    else:
        check_policy(row, before, stamp)
    row.updated_at, row.changed_by_name = stamp.at, stamp.actor.name
    with unique_name(row.name, noun), transaction.atomic():
        row.save()
    changed = [name for name in fields if before and before[name] != getattr(row, name)]
    if changed or not before:
        record(row, updated if before else created, stamp=stamp, changed=changed)
    if isinstance(row, EscalationPolicy):
        route_open(row, before, stamp=stamp)
    return row


def route_open(policy: EscalationPolicy, before: Mapping[str, Any], *, stamp: Stamp) -> None:
    if not policy.enabled:
        sql.run(LEAVE, policy=policy.pk)
    elif any(before.get(name) != getattr(policy, name) for name in TIMED) and before:
        sql.run(
            KEEP_DISTANCE,
            policy=policy.pk,
            within=timedelta(seconds=policy.answer_within_s),
            were=list_minutes(before["steps"]),
            are=list_minutes(policy.steps),
            now=stamp.at,
        )
    sql.run(ROUTE_AGAIN, project=policy.project_id)


def list_minutes(lines: Sequence[str]) -> list[int]:
    return [int(step.after.total_seconds()) // 60 for step in read_steps(lines)]


def record(
    row: EscalationPolicy | Rota, kind: Kind, *, stamp: Stamp, changed: Sequence[str] = ()
) -> None:
    data: dict[str, Any] = {"name": row.name, "changed": list(changed)}
    if isinstance(row, EscalationPolicy) and ("steps" in changed or not changed):
        data["steps"] = row.steps
    journal.record_about("on_call", row, kind, stamp=stamp, data=data)


@contextmanager
def unique_name(name: str, noun: str) -> Iterator[None]:
    # The database refuses a name that another row has.
    try:
        yield
    except IntegrityError as error:
        if "_once" in str(error):
            raise Invalid("/name", f"Another {noun} is called '{name}'.") from error
        raise


# ---- checks


def check_name(name: str) -> None:
    if not 1 <= len(name) <= NAME_LENGTH or not name.isprintable() or set(name) & set(",:"):
        raise Invalid(
            "/name", f"A name has 1 to {NAME_LENGTH} visible characters, without comma and colon."
        )
    if name != name.strip() or redacted(name) != name:
        raise Invalid("/name", "A name has no spaces around it, and no secret in it.")


def check_rota(rota: Rota, before: Mapping[str, Any]) -> None:
    if rota.timezone not in available_timezones():
        raise Invalid("/timezone", f"'{rota.timezone[:60]}' is not a zone such as Europe/Berlin.")
    old = before.get("name", rota.name)
    if old != rota.name and any(names_rota(each, old) for each in list_policies(rota.project_id)):
        raise Invalid("/name", "A policy names the rota; create another and change the policy.")
    if not 0 <= len(rota.shifts) <= MOST_SHIFTS:
        raise Invalid("/shifts", f"A rota has at most {MOST_SHIFTS} shifts.")
    directory = read_directory(rota.project_id)
    shifts = [read_shift(line, f"/shifts/{at}") for at, line in enumerate(rota.shifts)]
    for at, shift in enumerate(shifts):
        check_people(shift.people, directory, f"/shifts/{at}")
    if not rota.fallback:
        raise Invalid("/fallback", "Name at least one person for the time outside of all shifts.")
    check_people(rota.fallback, directory, "/fallback")
    rota.shifts = [format_shift(shift) for shift in shifts]


def read_shift(line: str, pointer: str) -> Shift:
    try:
        return parse_shift(line)
    except Unreadable as error:
        raise Invalid(pointer, str(error)) from None


def check_people(names: Sequence[str], directory: Directory, pointer: str) -> None:
    for name in names:
        if name not in directory.people:
            raise Invalid(
                pointer, f"'{name[:60]}' is not a person who may answer escalations here."
            )


def check_policy(policy: EscalationPolicy, before: Mapping[str, Any], stamp: Stamp) -> None:
    if len(policy.conditions) > CONDITIONS_LENGTH or holds_secret(policy.conditions):
        raise Invalid(
            "/conditions", f"Conditions have up to {CONDITIONS_LENGTH} characters and no secret."
        )
    if not 0 <= policy.position <= 10_000:
        raise Invalid("/position", "A position is from 0 to 10000.")
    try:
        parse_conditions(policy.conditions)
    except Unreadable as error:
        raise Invalid("/conditions", str(error)) from None
    policy.conditions = " ".join(policy.conditions.split())
    low, high = ANSWER_WITHIN_S
    if not low <= policy.answer_within_s <= high:
        raise Invalid("/answer_within_s", f"answer_within_s is from {low} to {high}.")
    if not 1 <= len(policy.steps) <= MOST_STEPS:
        raise Invalid("/steps", f"A policy has 1 to {MOST_STEPS} steps.")
    steps = [read_step(line, f"/steps/{at}") for at, line in enumerate(policy.steps)]
    check_steps(steps, policy, read_directory(policy.project_id))
    policy.steps = [format_step(step) for step in steps]
    answers = [step.answer for step in steps if step.answer]
    had = [step.answer for step in read_steps(before.get("steps", [])) if step.answer]
    # A default answer keeps its author when another person changes the rest.
    if answers != had:
        policy.answer_by_name = stamp.actor.name if answers else ""


def check_steps(steps: Sequence[Step], policy: EscalationPolicy, directory: Directory) -> None:
    within, longest = (timedelta(seconds=each) for each in (policy.answer_within_s, 2_592_000))
    if steps[0].action != StepAction.TELL or steps[0].after >= within:
        raise Invalid("/steps/0", "The first step tells people, and before answer_within_s.")
    for at, step in enumerate(steps):
        pointer = f"/steps/{at}"
        if (at and step.after <= steps[at - 1].after) or step.after > longest:
            raise Invalid(pointer, "Each step comes later than the one before, within 30 days.")
        if step.action == StepAction.ANSWER:
            if at + 1 < len(steps):
                raise Invalid(pointer, "An answer is the last step.")
            check_answer(step.answer, pointer)
        # A policy can be switched off after its people have left.
        for target in step.to if policy.enabled else ():
            check_target(target, directory, pointer)


def check_answer(text: str, pointer: str) -> None:
    try:
        choice = choices.check(choices.parse(text))
    except Invalid as refusal:
        raise Invalid(pointer, refusal.detail) from None
    if choice.action in PERMISSION_ANSWERS:
        raise Invalid(pointer, "No policy allows or denies a tool call: a person does.")
    if choice.action == Answer.GRANT:
        raise Invalid(pointer, "No policy grants more than a budget has: a person does.")
    if holds_secret(text):
        raise Invalid(pointer, "The answer looks like it contains a secret, which none may store.")


def check_target(target: str, directory: Directory, pointer: str) -> None:
    kind, colon, name = target.partition(":")
    if not colon:
        check_people([target], directory, pointer)
    elif kind == "rota" and name not in directory.rotas:
        raise Invalid(pointer, f"There is no rota '{name[:60]}' here; create it first.")
    elif kind == "role" and name in (Role.OPERATOR, Role.ADMIN):
        return  # without such a member, all who may answer are told
    elif kind != "rota" and target not in directory.groups:
        known = ", ".join(sorted(directory.groups)) or "none yet"
        raise Invalid(pointer, f"'{target[:60]}' has no member who may answer. Known: {known}.")


def names_rota(policy: EscalationPolicy, name: str) -> bool:
    return any(f"rota:{name}" in step.to for step in read_steps(policy.steps))


def read_step(line: str, pointer: str) -> Step:
    try:
        return parse_step(line)
    except Unreadable as error:
        raise Invalid(pointer, str(error)) from None


def read_steps(lines: Sequence[str]) -> list[Step]:
    return [parse_step(line) for line in lines]
