"""Build the bodies of webhooks: thin, and with what an event records only on request."""

import json
from typing import Any
from uuid import UUID

from ledger.database.sql import Row
from ledger.values.text import truncate
from ledger.values.timestamps import format_timestamp
from retries.notifications.messages.subjects import Subjects, facts_of, url_of

DETAILS_BYTES = 12_000
# what an event records that is no text of an agent: ids, refs, states and counts
THIN = {
    "action",
    "aborted",
    "attempt",
    "attempts",
    "delay_s",
    "due_at",
    "failures",
    "instruction",
    "kind",
    "level",
    "number",
    "on_expiry",
    "outcome",
    "plan",
    "reason",
    "ref",
    "retry_count",
    "run",
    "task",
    "tasks",
    "type",
    "waiting",
}
TEXT_LENGTH = 200


def build_body(event: Row, about: Subjects, *, include_details: bool) -> dict[str, Any]:
    project, agent = about.projects.get(event["project_id"]), about.agents.get(event["agent_id"])
    data: dict[str, Any] = {
        "event_id": str(event["id"]),
        "project": project.name if project else None,
        "agent": agent.name if agent else None,
        "agent_id": str(event["agent_id"]) if event["agent_id"] else None,
        "subject": {"type": event["subject_type"], "id": str(event["subject_id"])},
        "from_state": event["from_state"],
        "to_state": event["to_state"],
        "actor": {"type": event["actor_type"], "name": event["actor_name"]},
        "url": url_of(event["subject_type"], event["subject_id"]),
        **thin_values(event["data"]),
    }
    if include_details:
        data["details"] = details_of(event, about)
    at = format_timestamp(event["at"])
    return {"type": event["kind"], "timestamp": at, "data": data}


def thin_values(data: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are safe to send everywhere.

    >>> thin_values({"number": 2, "error": "password=x", "ref": {"a": 1}})
    {'number': 2}
    """
    return {
        name: truncate(value, TEXT_LENGTH) if isinstance(value, str) else value
        for name, value in data.items()
        if name in THIN and (value is None or isinstance(value, (str, int, float, bool)))
    }


def details_of(event: Row, about: Subjects) -> dict[str, Any]:
    facts = facts_of(event, about, with_details=True)
    details: dict[str, Any] = {
        "title": truncate(facts.title, TEXT_LENGTH),
        "text": truncate(facts.detail, 4000),
        "event": event["data"],
    }
    if len(json.dumps(details)) > DETAILS_BYTES:
        details["event"] = {"omitted": "larger than 12 KB; read it with GET /v1/events"}
    return details


def traceparent_of(id: UUID) -> str:
    """Return a trace context that is the same at every try.

    >>> traceparent_of(UUID("01a20245-7c19-7e08-b1d4-20c66a9f0d31"))
    '00-01a202457c197e08b1d420c66a9f0d31-b1d420c66a9f0d31-01'
    """
    return f"00-{UUID(str(id)).hex}-{UUID(str(id)).hex[16:]}-01"
