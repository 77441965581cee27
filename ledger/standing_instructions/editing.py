"""Create, change, pause, resume and retire standing instructions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from ledger import journal
from ledger.errors import Invalid, InvalidTransition, NotFound, VersionMismatch
from ledger.instructions import EXPECT_TYPE_LENGTH, MAX_RETRIES, Expect, check_content, check_expect
from ledger.journal import Kind, Stamp
from ledger.models import Agent, Plan, Project, StandingInstruction
from ledger.models.instruction import OnFailed
from ledger.models.standing_instruction import INTERVAL_S, OncePer, RuleState, Trigger
from ledger.secrets.notes import noted
from ledger.standing_instructions.matching import check_match, is_too_large, split_match

SESSION_START = "session_start"
RULES_PER_PROJECT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class On:
    """The event of a rule: a signal, the start of a session, a claimed task, or the clock.

    `type` is the signal's or the task's type; null takes tasks of any type.
    """

    event: str
    type: str | None = None
    match: dict[str, Any] = field(default_factory=dict)
    plan: Plan | None = None
    interval_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """A rule as its author states it."""

    on: On
    content: str
    expect: Expect | None = None
    max_retries: int | None = None
    on_failed: str = OnFailed.ESCALATE.value
    agent: Agent | None = None
    once_per: str = OncePer.TRIGGER.value
    hold_stop: bool = False


ALLOWED = {
    Trigger.SIGNAL: ("type", "match"),
    Trigger.SESSION_START: ("match",),
    Trigger.TASK_CLAIMED: ("type", "plan"),
    Trigger.EVERY: ("interval_s",),
}


def check_spec(spec: RuleSpec, *, project_id: UUID) -> dict[str, Any]:
    """Return the columns of a rule; raises Invalid if the rule could never work as written."""
    retries = spec.max_retries
    if retries is None:
        retries = settings.TENFOUR["INSTRUCTION_MAX_RETRIES"]
    if not 0 <= retries <= MAX_RETRIES:
        raise Invalid("/max_retries", f"max_retries must be an integer from 0 to {MAX_RETRIES}.")
    if spec.on_failed not in OnFailed.values:
        raise Invalid("/on_failed", f"on_failed is one of: {', '.join(OnFailed.values)}.")
    if spec.once_per not in OncePer.values:
        raise Invalid("/once_per", f"once_per is one of: {', '.join(OncePer.values)}.")
    if spec.agent and spec.agent.project_id != project_id:
        raise Invalid("/agent", f"The agent {spec.agent.name} is not in this project.")
    expect = check_rule_expect(spec.expect)
    on = check_on(spec.on, project_id=project_id)
    if on["event"] == Trigger.EVERY and spec.once_per != OncePer.TRIGGER:
        raise Invalid("/once_per", "A rule of the clock has its interval; leave out once_per.")
    return on | {
        "agent": spec.agent,
        "content": check_content(spec.content),
        "expect_type": expect.type if expect else None,
        "expect_match": (expect.match or {}) if expect else None,
        "max_retries": retries,
        "on_failed": spec.on_failed,
        "once_per": spec.once_per,
        "hold_stop": spec.hold_stop,
    }


def check_rule_expect(expect: Expect | None) -> Expect | None:
    for name, value in ((expect and expect.match) or {}).items():
        if isinstance(value, dict) and "glob" in value:
            raise Invalid(
                f"/expect/match/{name}",
                "A glob works in 'on' alone. Expect an exact value, or a type without a match.",
            )
        if is_too_large(value):
            raise Invalid(f"/expect/match/{name}", "The value is too long or not a number.")
    return check_expect(expect)


def check_on(on: On, *, project_id: UUID) -> dict[str, Any]:
    if on.event not in Trigger.values:
        raise Invalid("/on/event", f"event is one of: {', '.join(Trigger.values)}.")
    event = Trigger(on.event)
    for name in ("type", "match", "plan", "interval_s"):
        if getattr(on, name) and name not in ALLOWED[event]:
            raise Invalid(f"/on/{name}", f"The event '{event}' takes no {name}.")
    if on.plan and on.plan.project_id != project_id:
        raise Invalid("/on/plan", f"The plan {on.plan.ref} is not in this project.")
    match = check_match(on.match)
    return {
        "event": event.value,
        "signal_type": signal_type_of(on, event),
        "match": match,
        **split_match(match),
        "task_type": check_type(on.type) if event == Trigger.TASK_CLAIMED else None,
        "plan": on.plan,
        "interval_s": check_interval(on.interval_s) if event == Trigger.EVERY else None,
    }


def signal_type_of(on: On, event: Trigger) -> str | None:
    if event == Trigger.SESSION_START:
        return SESSION_START
    if event != Trigger.SIGNAL:
        return None
    if not on.type:
        raise Invalid("/on/type", "Name the type of the signal, such as fs_write.")
    return check_type(on.type)


def check_type(type: str | None) -> str | None:
    if type is not None and (not type.strip() or len(type) > EXPECT_TYPE_LENGTH):
        raise Invalid("/on/type", f"type must have 1 to {EXPECT_TYPE_LENGTH} characters.")
    return type


def check_interval(interval_s: int | None) -> int:
    least, most = INTERVAL_S
    if interval_s is None or not least <= interval_s <= most:
        raise Invalid("/on/interval_s", f"interval_s must be from {least} to {most} seconds.")
    return interval_s


# ---- verbs


@transaction.atomic
def create_rule(
    spec: RuleSpec, *, project: Project, paused: bool = False, stamp: Stamp
) -> StandingInstruction:
    """Insert a rule and return it. A rule that begins paused is a draft."""
    columns = check_spec(spec, project_id=project.id)
    # One creation after the other, so that the number is exact.
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    if StandingInstruction.objects.filter(project=project).current().count() >= RULES_PER_PROJECT:
        raise Invalid(
            "/on", f"A project has at most {RULES_PER_PROJECT} rules. Retire one that is not used."
        )
    made = StandingInstruction.objects.create(
        project=project,
        paused=paused,
        activated_at=None if paused else stamp.at,
        created_by_type=stamp.actor.type,
        created_by_name=stamp.actor.name,
        created_at=stamp.at,
        updated_at=stamp.at,
        **columns,
    )
    made.refresh_from_db()
    record_change(made, Kind.STANDING_INSTRUCTION_CREATED, stamp=stamp, to_state=made.state)
    return made


@transaction.atomic
def update_rule(
    id: UUID, spec: RuleSpec, *, project_id: UUID, version: int, stamp: Stamp
) -> StandingInstruction:
    """Replace what a rule says; raises VersionMismatch if it changed since `version`.

    Instructions that it has sent stay as they are.
    """
    found = lock_rule(id, project_id=project_id)
    if found.version != version:
        raise VersionMismatch(
            f"The rule has version {found.version}, not {version}.", current=found.version
        )
    require_current(found)
    columns = check_spec(spec, project_id=project_id)
    changed = sorted(name for name, value in columns.items() if getattr(found, name) != value)
    if not changed:
        return found
    update_columns(found, stamp=stamp, **columns)
    record_change(
        found,
        Kind.STANDING_INSTRUCTION_UPDATED,
        stamp=stamp,
        data={"changed": [name for name in changed if name not in DERIVED]},
    )
    return found


# columns that follow from another column
DERIVED = ("match_exact", "path_pattern")


@transaction.atomic
def pause_rules(ids: Iterable[UUID], *, stamp: Stamp) -> list[StandingInstruction]:
    """Stop these rules from sending; return those that changed. Open instructions stay open."""
    changed = [rule for rule in lock_rules(ids) if not rule.paused]
    for found in changed:
        update_columns(found, stamp=stamp, paused=True)
        record_change(
            found,
            Kind.STANDING_INSTRUCTION_PAUSED,
            stamp=stamp,
            from_state=RuleState.ACTIVE,
            to_state=found.state,
        )
    return changed


@transaction.atomic
def resume_rules(ids: Iterable[UUID], *, stamp: Stamp) -> list[StandingInstruction]:
    """Switch these rules on; return those that changed."""
    changed = [rule for rule in lock_rules(ids) if rule.paused and not rule.retired_at]
    for found in changed:
        before = found.state
        update_columns(found, stamp=stamp, paused=False, activated_at=stamp.at)
        record_change(
            found,
            Kind.STANDING_INSTRUCTION_RESUMED,
            stamp=stamp,
            from_state=before,
            to_state=found.state,
        )
    return changed


@transaction.atomic
def retire_rules(ids: Iterable[UUID], *, note: str = "", stamp: Stamp) -> list[StandingInstruction]:
    """End these rules permanently; return those that changed. Their records stay."""
    changed = [rule for rule in lock_rules(ids) if not rule.retired_at]
    for found in changed:
        before = found.state
        update_columns(found, stamp=stamp, paused=True, retired_at=stamp.at)
        record_change(
            found,
            Kind.STANDING_INSTRUCTION_RETIRED,
            stamp=stamp,
            from_state=before,
            to_state=found.state,
            data=noted(note),
        )
    return changed


def lock_rules(ids: Iterable[UUID]) -> list[StandingInstruction]:
    rows = StandingInstruction.objects.select_for_update(no_key=True, of=("self",))
    return list(rows.filter(pk__in=list(ids)).order_by("pk"))


def lock_rule(id: UUID, *, project_id: UUID) -> StandingInstruction:
    """Lock and return a rule; raise NotFound if the project has none with this id."""
    rows = StandingInstruction.objects.select_for_update(no_key=True, of=("self",))
    found = rows.select_related("agent", "plan").filter(pk=id, project_id=project_id).first()
    if found is None:
        raise NotFound(f"There is no standing instruction {id} here.")
    return found


def require_current(found: StandingInstruction) -> None:
    if found.retired_at:
        raise InvalidTransition(
            "The rule is retired. Create a new one.", current=found.state, allowed=[]
        )


def update_columns(found: StandingInstruction, *, stamp: Stamp, **columns: Any) -> None:
    columns |= {"version": found.version + 1, "updated_at": stamp.at}
    StandingInstruction.objects.filter(pk=found.pk).update(**columns)
    for name, value in columns.items():
        setattr(found, name, value)


def record_change(
    found: StandingInstruction,
    kind: Kind,
    *,
    stamp: Stamp,
    from_state: str | None = None,
    to_state: str | None = None,
    data: dict[str, Any] | None = None,
) -> None:
    journal.record_about(
        "rule", found, kind, stamp=stamp, from_state=from_state, to_state=to_state, data=data
    )


def spec_of(found: StandingInstruction) -> RuleSpec:
    event = Trigger(found.event)
    type = found.signal_type if event == Trigger.SIGNAL else found.task_type
    return RuleSpec(
        on=On(
            event=event.value,
            type=type,
            match=found.match,
            plan=found.plan,
            interval_s=found.interval_s,
        ),
        content=found.content,
        expect=Expect(found.expect_type, found.expect_match) if found.expect_type else None,
        max_retries=found.max_retries,
        on_failed=found.on_failed,
        agent=found.agent,
        once_per=found.once_per,
        hold_stop=found.hold_stop,
    )
