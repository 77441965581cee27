"""Describe events of channels, notification rules, views and markers in sentences (pure)."""

from dataclasses import replace

from dashboard.sentences.event_sentence import EventSentence, plain, unknown, who_of
from ledger.journal import Kind
from ledger.models import Event
from retries.notifications.rules.conditions import condition_of

# icon, verb
CHANNELS = {
    Kind.CHANNEL_CREATED: ("bell", "created the channel"),
    Kind.CHANNEL_UPDATED: ("pen", "changed the channel"),
    Kind.CHANNEL_ROTATED: ("key", "rotated the signing secret of the channel"),
    Kind.CHANNEL_ENABLED: ("play", "switched on the channel"),
    Kind.CHANNEL_DISABLED: ("pause", "switched off the channel"),
    Kind.CHANNEL_DELETED: ("trash", "deleted the channel"),
}
RULES = {
    Kind.NOTIFICATION_RULE_CREATED: ("rule", "created the notification rule"),
    Kind.NOTIFICATION_RULE_UPDATED: ("pen", "changed the notification rule"),
    Kind.NOTIFICATION_RULE_DELETED: ("trash", "deleted the notification rule"),
}
ON_CALL = {
    Kind.ESCALATION_POLICY_CREATED: ("rule", "created the escalation policy"),
    Kind.ESCALATION_POLICY_UPDATED: ("pen", "changed the escalation policy"),
    Kind.ESCALATION_POLICY_DELETED: ("trash", "deleted the escalation policy"),
    Kind.ROTA_CREATED: ("people", "created the rota"),
    Kind.ROTA_UPDATED: ("pen", "changed the rota"),
    Kind.ROTA_DELETED: ("trash", "deleted the rota"),
}
VIEWS = {
    Kind.SAVED_VIEW_CREATED: ("bookmark", "saved the view"),
    Kind.SAVED_VIEW_DELETED: ("trash", "deleted the view"),
}
MARKERS = {
    Kind.MARKER_CREATED: ("bookmark", "marked"),
    Kind.MARKER_DELETED: ("trash", "deleted the marker"),
}


def describe_channel_event(event: Event) -> EventSentence:
    name = str(event.data.get("name") or "")
    if event.kind == Kind.WEBHOOK_DISABLED:
        reason = str(event.data.get("reason") or "unknown").replace("_", " ")
        does = f"disabled the channel {name}: {reason}"
        return replace(plain("s-failed", who_of(event), does), tone="red")
    if event.kind not in CHANNELS:
        return unknown(event)
    icon, does = CHANNELS[Kind(event.kind)]
    return plain(icon, who_of(event), f"{does} {name}".rstrip(), describe_fields(event))


def describe_notification_rule_event(event: Event) -> EventSentence:
    if event.kind not in RULES:
        return unknown(event)
    icon, does = RULES[Kind(event.kind)]
    when = " or ".join(condition_of(str(each)).label for each in event.data.get("conditions") or ())
    channel = event.data.get("channel")
    said = f" when {when}, tell {channel}" if when and channel else ""
    return plain(icon, who_of(event), f"{does}{said}", describe_fields(event))


def describe_on_call_event(event: Event) -> EventSentence:
    icon, does = ON_CALL[Kind(event.kind)]
    name = str(event.data.get("name") or "")
    return plain(icon, who_of(event), f"{does} {name}".rstrip(), describe_fields(event))


def describe_fields(event: Event) -> str:
    changed = event.data.get("changed")
    if not isinstance(changed, list) or not changed:
        return ""
    if changed == ["enabled"]:
        return f": {'on' if event.data.get('enabled') else 'off'}"
    return f": {', '.join(str(name).replace('_', ' ') for name in changed)}"


def describe_view_event(event: Event) -> EventSentence:
    if event.kind not in VIEWS:
        return unknown(event)
    icon, does = VIEWS[Kind(event.kind)]
    listed = str(event.data.get("list") or "")
    of = f" of {listed}" if listed else ""
    return plain(icon, who_of(event), f"{does} {event.data.get('name') or ''}".rstrip(), of)


def describe_marker_event(event: Event) -> EventSentence:
    if event.kind not in MARKERS:
        return unknown(event)
    icon, does = MARKERS[Kind(event.kind)]
    name, kind = (str(event.data.get(key) or "") for key in ("name", "kind"))
    said = "" if not kind or name.lower().startswith(kind.lower()) else f"{kind} "
    return plain(icon, who_of(event), f"{does} {said}{name}".rstrip())
