"""Read the form of a channel; what can't be stored becomes an error of its field."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet

from dashboard.frame.access import may_enter
from ledger.authorization.permissions import people_who_may
from ledger.errors import Invalid
from ledger.models import Project
from retries.models import Channel
from retries.models.notification_channel import ChannelKind
from retries.notifications.channels import ChannelSpec

PEOPLE_LISTED = 200
EXAMPLES = (
    (
        "mailtos://user:password@smtp.example.com?from=tenfour@example.com&to=you@example.com",
        "Email",
    ),
    ("slack://botname@tokenA/tokenB/tokenC/#channel", "Slack"),
    ("ntfys://ntfy.sh/your-topic", "ntfy"),
)


@dataclass(slots=True)
class ChannelForm:
    """The values of the form as they were typed, and what is wrong with them."""

    values: dict[str, str]
    project: Project | None = None  # the channel's, or None for every project
    errors: dict[str, str] = field(default_factory=dict)
    examples: tuple[tuple[str, str], ...] = EXAMPLES

    @property
    def is_webhook(self) -> bool:
        return self.values.get("kind") == ChannelKind.WEBHOOK

    @property
    def people(self) -> list[str]:
        users = list_people(self.project)[:PEOPLE_LISTED]
        return [user.username for user in users if self.project or may_enter(user)]

    def read(self) -> dict[str, Any]:
        """Return what the form says of a channel; the address only where one was typed."""
        value = self.values.get
        said: dict[str, Any] = {
            "name": value("name", "").strip(),
            "include_details": "include_details" in self.values,
            "person": list_people(self.project).filter(username=value("person", "")).first(),
        }
        if self.is_webhook:
            said["events"] = tuple(value("events", "").replace(",", " ").split())
        if url := value("url", "").strip():
            said["url"] = url
        return said

    def read_new(self) -> ChannelSpec:
        kind = ChannelKind.WEBHOOK if self.is_webhook else ChannelKind.PERSON
        return ChannelSpec(kind=kind, **{"url": ""} | self.read())

    def note(self, refusal: Invalid) -> None:
        for error in refusal.more["errors"]:
            self.errors[str(error["pointer"]).split("/")[1]] = str(error["detail"])


def list_people(project: Project | None) -> QuerySet[User]:
    """Return the people who see a project; its admins may not know of others."""
    if project:
        return people_who_may("retries.view_escalation", project.pk)
    return User.objects.filter(is_active=True).order_by("username")


def form_of(channel: Channel | None, project: Project | None) -> ChannelForm:
    """Return the form of a stored channel, whose address stays secret, or of a new one."""
    if channel is None:
        return ChannelForm({"kind": ChannelKind.PERSON.value}, project)
    values = {
        "kind": channel.kind,
        "name": channel.name,
        "events": " ".join(channel.events),
        "person": channel.person.username if channel.person else "",
        "version": str(channel.version),
    }
    boxes = {"include_details": "on"} if channel.include_details else {}
    return ChannelForm(values | boxes, channel.project)


def posted_form(posted: Mapping[str, str], project: Project | None) -> ChannelForm:
    return ChannelForm({name: value.replace("\0", "") for name, value in posted.items()}, project)
