"""Read the form of a rule; what can't be stored becomes an error of its field."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time

from dashboard.form_values import LARGEST, read_clock_time, read_form_number
from dashboard.lists.query_box import as_id
from ledger.errors import Invalid
from ledger.models import Agent, Plan, Project
from retries.models import Channel, NotificationRule
from retries.models.notification_rule import RepeatUntil
from retries.notifications.rules.conditions import CONDITIONS, condition_of
from retries.notifications.rules.editing import NotificationRuleSpec, check_rule

SEVERE = "high"
SEVERITIES = (("", "any severity"), (SEVERE, "severe only"))
UNTIL = ((RepeatUntil.ANSWERED.value, "answered"), (RepeatUntil.TAKEN.value, "someone takes it"))
# the field that shows the error of a pointer
POINTERS = {
    "cap_per_hour": "cap",
    "repeat_s": "repeat",
    "repeat_until": "until",
    "second_channel": "second",
    "second_after_s": "second_after",
    "quiet_from": "quiet",
    "quiet_until": "quiet",
}
NEW = {
    "conditions": "escalation",
    "only_on_change": "on",
    "breaks": "on",
    "until": RepeatUntil.ANSWERED.value,
    "cap": "10",
    "timezone": "UTC",
}


@dataclass(slots=True)
class RuleForm:
    """The values of the form as they were typed, and what is wrong with them."""

    values: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def choices(self) -> list[tuple[str, str]]:
        # A rule with several conditions keeps them as one choice.
        found = [(name, each.label) for name, each in CONDITIONS.items()]
        own = self.values.get("conditions", "")
        if own and own not in CONDITIONS:
            names = own.split(",")
            found.append((own, " or ".join(condition_of(name).label for name in names)))
        return found

    def read(
        self, project: Project | None, known: Iterable[Channel] = ()
    ) -> NotificationRuleSpec | None:
        """Return what the form says of a rule, or None with the errors noted."""
        try:
            spec = self.build_spec(project, known)
            if not self.errors:
                check_rule(spec, project)
                return spec
        except Invalid as refusal:
            self.note(refusal)
        return None

    def build_spec(self, project: Project | None, known: Iterable[Channel]) -> NotificationRuleSpec:
        value = self.values.get
        channel, second = find_channels(known, value("channel", ""), value("second", ""))
        if channel is None:
            raise Invalid("/channel", "Choose a channel.")
        quiet_from, quiet_until = self.read_time("quiet_from"), self.read_time("quiet_until")
        return NotificationRuleSpec(
            conditions=tuple(name for name in value("conditions", "").split(",") if name),
            channel=channel,
            agent=find_agent(value("agent", ""), project),
            plan=find_plan(value("plan", ""), project),
            severity=value("severity", ""),
            only_on_change="only_on_change" in self.values,
            cap_per_hour=self.read_number("cap"),
            repeat_s=self.read_minutes("repeat"),
            repeat_until=value("until", RepeatUntil.ANSWERED.value),
            quiet_from=quiet_from,
            quiet_until=quiet_until,
            timezone=value("timezone", "") or "UTC",
            severe_breaks_quiet="breaks" in self.values,
            second_channel=second,
            second_after_s=self.read_minutes("second_after") if second else None,
            enabled=value("enabled", "yes") == "yes",
        )

    def read_number(self, name: str) -> int | None:
        text = self.values.get(name, "").strip()
        if not text:
            return None
        number = read_form_number(text)
        if number is None:
            self.errors[name] = f"“{text[:20]}” is not a whole number up to {LARGEST:,}."
        return number

    def read_minutes(self, name: str) -> int | None:
        number = self.read_number(name)
        return None if number is None else number * 60

    def read_time(self, name: str) -> time | None:
        try:
            return read_clock_time(self.values.get(name, ""))
        except ValueError as error:
            self.errors["quiet"] = str(error)
            return None

    def note(self, refusal: Invalid) -> None:
        for error in refusal.more["errors"]:
            name = str(error["pointer"]).split("/")[1]
            self.errors[POINTERS.get(name, name)] = str(error["detail"])


def find_channels(known: Iterable[Channel], *texts: str) -> list[Channel | None]:
    # Known channels are not read again.
    found, ids = {each.pk: each for each in known}, [as_id(text) for text in texts]
    if others := {id for id in ids if id and id not in found}:
        found |= Channel.objects.in_bulk(others)
    return [found.get(id) if id else None for id in ids]


def find_agent(name: str, project: Project | None) -> Agent | None:
    if not name:
        return None
    rows = Agent.objects.filter(project=project) if project else Agent.objects.all()
    found = list(rows.filter(name=name.strip())[:2])
    if not found:
        raise Invalid("/agent", f"There is no agent “{name[:64]}” here.")
    if len(found) > 1:
        raise Invalid("/agent", "Several projects have this agent. Choose a project.")
    return found[0]


def find_plan(ref: str, project: Project | None) -> Plan | None:
    if not ref:
        return None
    rows = Plan.objects.filter(project=project) if project else Plan.objects.all()
    found = rows.filter(ref=ref.strip()).order_by("-id").first()
    if found is None:
        raise Invalid("/plan", f"There is no plan “{ref[:64]}” here.")
    return found


def posted_form(posted: Mapping[str, str]) -> RuleForm:
    return RuleForm({name: value.replace("\0", "") for name, value in posted.items()})


def form_of(rule: NotificationRule) -> RuleForm:
    values = {
        "conditions": ",".join(rule.conditions),
        "agent": rule.agent.name if rule.agent else "",
        "plan": (rule.plan.ref or "") if rule.plan else "",
        "severity": rule.severity,
        "channel": str(rule.channel_id),
        "cap": str(rule.cap_per_hour or ""),
        "repeat": minutes(rule.repeat_s),
        "until": rule.repeat_until,
        "quiet_from": f"{rule.quiet_from:%H:%M}" if rule.quiet_from else "",
        "quiet_until": f"{rule.quiet_until:%H:%M}" if rule.quiet_until else "",
        "timezone": rule.timezone,
        "second": str(rule.second_channel_id or ""),
        "second_after": minutes(rule.second_after_s),
        "version": str(rule.version),
        "enabled": "yes" if rule.enabled else "no",
    }
    boxes = {"only_on_change": rule.only_on_change, "breaks": rule.severe_breaks_quiet}
    return RuleForm(values | {name: "on" for name, is_on in boxes.items() if is_on})


def minutes(seconds: int | None) -> str:
    return str(seconds // 60) if seconds else ""


def empty_form(channels: list[Channel], project: Project | None) -> RuleForm:
    first = next((str(each.pk) for each in channels), "")
    return RuleForm(NEW | {"channel": first, "project": project.name if project else ""})


def as_rule(
    spec: NotificationRuleSpec, project: Project | None, *, now: datetime
) -> NotificationRule:
    return NotificationRule(project=project, enabled_at=now, **spec.columns)
