"""Standing answers to tool calls: what they decide, who made them, and when they end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from ledger import journal
from ledger.database import sql
from ledger.errors import Invalid, InvalidTransition, NotFound
from ledger.journal import Kind, Stamp, clock
from ledger.models import Agent
from ledger.secrets.notes import clean_message, noted
from ledger.secrets.redaction import holds_secret
from retries.models import PermissionRequest, PermissionRule, PermissionRuleQuerySet
from retries.permissions import matchers
from retries.permissions.calls import EDIT_TOOLS, SHELL_TOOLS, ToolCall
from retries.permissions.forms import ASKING_TOOLS
from retries.permissions.matchers import Verdict
from retries.permissions.shell_matchers import MatcherError
from retries.states import PermissionState, RuleState

UNUSED = timedelta(days=90)
MATCHER_LENGTH = 1000
MESSAGE_LENGTH = 4000
TRIED = timedelta(days=30)
MOST_TRIED, MOST_SHOWN = 5000, 20
CLOCK = clock("escalations")
DENIED = "A rule of this project denies this call: {rule}."


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision of rules about a call; a line of several commands may take several rules."""

    state: PermissionState
    rules: Sequence[PermissionRule]

    @property
    def message(self) -> str:
        if self.state != PermissionState.DENIED:
            return ""
        return self.rules[0].message or DENIED.format(rule=self.rules[0])


# A request reads these, so it takes one prepared statement, and no rows of all columns.
ACTIVE = f"""select id, agent_id, tool, matcher, allows from retries_permissionrule
where project_id = %(project)s and (agent_id is null or agent_id = any(%(agents)s)
        or agent_id in (select pool_id from ledger_poolmember where agent_id = any(%(agents)s)))
    and state = '{RuleState.ACTIVE}' and expires_at > %(now)s and tool = any(%(tools)s)
order by id"""


def decide(
    call: ToolCall, *, project_id: UUID, agent_id: UUID, is_elsewhere: bool = False, now: datetime
) -> Ruling | None:
    """Return what the project's rules decide about an agent's call; None if a person decides."""
    # A denial takes precedence. No rule allows a call of an agent that is not in the call's folder.
    # A call with a secret, or with a mask in its place, is not known as it would run: no rule
    # allows it.
    found = list_active(project_id, [agent_id], call.tool, now=now)
    may_allow = not is_elsewhere and not is_masked(call.input)
    allowing = [rule for rule in found if rule["allows"] and may_allow]
    denying = [rule for rule in found if not rule["allows"]]
    decision = matchers.decide(list_matchers(allowing), list_matchers(denying), call)
    match decision.verdict:
        case Verdict.ALLOW:
            return make_ruling(PermissionState.ALLOWED, [allowing[at] for at in decision.rules])
        case Verdict.DENY:
            return make_ruling(PermissionState.DENIED, [denying[at] for at in decision.rules])
        case Verdict.ASK:
            return None


def list_active(
    project_id: UUID, agent_ids: Sequence[UUID], tool: str, *, now: datetime
) -> list[sql.Row]:
    """Return the rules in effect for a tool's calls, in the order of their creation."""
    tools = list(name_tools(tool))
    return sql.run(ACTIVE, project=project_id, agents=list(agent_ids), now=now, tools=tools)


def name_tools(tool: str) -> frozenset[str]:
    # Programs name their shell differently, and a rule that denies one way to change a file denies
    # all.
    return next((each for each in (SHELL_TOOLS, EDIT_TOOLS) if tool in each), frozenset({tool}))


def list_matchers(rows: Sequence[sql.Row]) -> list[matchers.Rule]:
    return [(row["tool"], row["matcher"]) for row in rows]


def make_ruling(state: PermissionState, rows: Sequence[sql.Row]) -> Ruling:
    found = PermissionRule.objects.in_bulk([row["id"] for row in rows])
    return Ruling(state, [found[row["id"]] for row in rows])


def is_masked(value: Any) -> bool:
    return holds_secret(value) or "[redacted:" in str(value)


def record_use(
    rules: Sequence[PermissionRule], request: PermissionRequest, *, stamp: Stamp
) -> None:
    # The use of a rule postpones its end.
    used = PermissionRule.objects.filter(pk__in=[rule.pk for rule in rules])
    used.update(hits=F("hits") + 1, last_used_at=stamp.at, expires_at=stamp.at + UNUSED)
    kind = Kind.PERMISSION_ALLOWED if rules[0].allows else Kind.PERMISSION_DENIED
    data = {"rules": [str(rule.pk) for rule in rules], "rule": str(rules[0])}
    state = request.state
    journal.record_about("permission", request, kind, stamp=stamp, to_state=state, data=data)


# ---- changes by people


@transaction.atomic
def create_rule(
    *,
    project_id: UUID,
    agent: Agent | None,
    tool: str,
    matcher: str,
    allows: bool,
    message: str = "",
    stamp: Stamp,
) -> PermissionRule:
    """Put a rule into effect, or return the one that already is; raises Invalid."""
    tool, matcher = check_rule(tool, matcher, allows=allows)
    if len(message) > MESSAGE_LENGTH:
        raise Invalid("/message", f"A message has at most {MESSAGE_LENGTH} characters.")
    if message and allows:
        raise Invalid("/message", "Only a rule that denies tells the agent something.")
    same = {
        "project_id": project_id,
        "agent": agent,
        "tool": tool,
        "matcher": matcher,
        "allows": allows,
        "state": RuleState.ACTIVE,
    }
    rule, is_new = PermissionRule.objects.get_or_create(
        **same,
        defaults={
            "message": clean_message(message, limit_bytes=4 * MESSAGE_LENGTH),
            "created_by_name": stamp.actor.name,
            "created_at": stamp.at,
            "expires_at": stamp.at + UNUSED,
        },
    )
    if is_new:
        record_event(rule, Kind.PERMISSION_RULE_CREATED, stamp=stamp)
    return rule


def check_rule(tool: str, matcher: str, *, allows: bool) -> tuple[str, str]:
    """Return a rule's tool and matcher; raise Invalid with what to write instead."""
    tool, matcher = tool.strip(), " ".join(matcher.split())
    if not tool:
        raise Invalid("/tool", "Name the tool, such as Bash or Edit.")
    if not tool.isprintable():
        raise Invalid("/tool", "The name of a tool has no control characters.")
    if allows and tool in ASKING_TOOLS:
        raise Invalid("/tool", f"{tool} asks a person a question, which no rule can answer.")
    if len(matcher) > MATCHER_LENGTH:
        raise Invalid("/matcher", f"A matcher has at most {MATCHER_LENGTH} characters.")
    if is_masked(matcher):
        raise Invalid("/matcher", "This looks like it contains a secret, which no rule may store.")
    try:
        matchers.check_matcher(tool, matcher, allow=allows)
    except MatcherError as error:
        raise Invalid("/matcher", str(error)) from None
    return tool, matcher


@transaction.atomic
def dismiss(*, project_id: UUID, tool: str, matcher: str, stamp: Stamp) -> PermissionRule:
    """Dismiss the proposal of an allow rule; raises Invalid."""
    tool, matcher = check_rule(tool, matcher, allows=True)
    rule = PermissionRule.objects.create(
        project_id=project_id,
        tool=tool,
        matcher=matcher,
        allows=True,
        state=RuleState.DISMISSED,
        created_by_name=stamp.actor.name,
        created_at=stamp.at,
        expires_at=stamp.at,
        ended_by_name=stamp.actor.name,
        ended_at=stamp.at,
    )
    record_event(rule, Kind.PERMISSION_RULE_DISMISSED, stamp=stamp)
    return rule


@transaction.atomic
def revoke_rule(
    rule_id: UUID, *, among: PermissionRuleQuerySet, note: str = "", stamp: Stamp
) -> PermissionRule:
    """End a rule; raises NotFound and InvalidTransition."""
    # From now on, a person is asked again.
    rule = among.select_for_update(of=("self",)).filter(pk=rule_id).first()
    if rule is None:
        raise NotFound(f"There is no permission rule {rule_id} here.")
    if rule.state != RuleState.ACTIVE:
        raise InvalidTransition(f"The rule is {rule.state}.", current=rule.state, allowed=[])
    end(rule, RuleState.REVOKED, kind=Kind.PERMISSION_RULE_REVOKED, note=note, stamp=stamp)
    return rule


def expire_unused(*, now: datetime, of: UUID | None) -> int:
    """End the rules that nothing has used for a long time; return how many."""
    due = PermissionRule.objects.filter(state=RuleState.ACTIVE, expires_at__lte=now)
    due = due.filter(project=of) if of else due
    with transaction.atomic():
        rules = list(due.select_for_update(skip_locked=True)[:500])
        for rule in rules:
            kind = Kind.PERMISSION_RULE_EXPIRED
            end(rule, RuleState.EXPIRED, kind=kind, stamp=Stamp(CLOCK, now))
    return len(rules)


def end(rule: PermissionRule, to: RuleState, *, kind: Kind, note: str = "", stamp: Stamp) -> None:
    rule.state, rule.ended_at, rule.ended_by_name = to, stamp.at, stamp.actor.name
    rule.save(update_fields=["state", "ended_at", "ended_by_name"])
    record_event(rule, kind, note=note, stamp=stamp)


def record_event(rule: PermissionRule, kind: Kind, *, note: str = "", stamp: Stamp) -> None:
    data = {"rule": str(rule), "hits": rule.hits, **noted(note)}
    journal.record_about("permission_rule", rule, kind, stamp=stamp, to_state=rule.state, data=data)


# ---- what a rule would decide


@dataclass(frozen=True, slots=True)
class Trial:
    """The requests of the last 30 days that a rule would have helped to decide.

    `newest` are the newest of them; `against` counts those that a person decided the other way.
    """

    tried: int
    matched: int
    newest: list[PermissionRequest]
    against: int


def try_rule(
    *, project_id: UUID, agent: Agent | None, tool: str, matcher: str, allows: bool, now: datetime
) -> Trial:
    """Return what a rule would have decided, together with the rules in effect now."""
    # The inputs that are matched were stored without their secrets.
    rule = check_rule(tool, matcher, allows=allows)
    rows = PermissionRequest.objects.filter(
        project_id=project_id, tool__in=name_tools(rule[0]), asked_at__gt=now - TRIED
    )
    rows = rows.filter(agent=agent) if agent else rows
    found = rows.order_by("-id").only("tool", "input", "folder", "state", "agent")[:MOST_TRIED]
    agents = Agent.objects.filter(project=project_id).values_list("pk", flat=True)
    others = list_active(project_id, [agent.pk] if agent else list(agents), rule[0], now=now)
    other_state = PermissionState.DENIED if allows else PermissionState.ALLOWED
    matched, tried, against = list[UUID](), 0, 0
    for row in found.iterator(chunk_size=100):
        tried += 1
        weighed = [each for each in others if each["agent_id"] in (None, row.agent_id)]
        if would_decide(rule, weighed, call_of(row), allows=allows):
            matched.append(row.pk)
            against += row.state == other_state
    newest = PermissionRequest.objects.filter(pk__in=matched[:MOST_SHOWN]).select_related("agent")
    return Trial(tried, len(matched), list(newest.order_by("-id")), against)


def would_decide(
    rule: matchers.Rule, others: Sequence[sql.Row], call: ToolCall, *, allows: bool
) -> bool:
    """Return whether a rule decides about a call, alone or together with others."""
    if not allows:
        return matchers.matches(*rule, call, allow=False)
    if is_masked(call.input) or not matchers.allows_part(rule, call):
        return False
    allowing = list_matchers([row for row in others if row["allows"]])
    denying = list_matchers([row for row in others if not row["allows"]])
    decision = matchers.decide([rule, *allowing], denying, call)
    return decision.verdict == Verdict.ALLOW and 0 in decision.rules


def call_of(request: PermissionRequest) -> ToolCall:
    value: Any = request.input
    return ToolCall(request.tool, value if isinstance(value, dict) else {}, request.folder)
