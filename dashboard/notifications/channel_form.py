"""Read the form of a channel; what can't be stored becomes an error of its field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet

from dashboard.form_values import read_whole_number
from dashboard.frame.access import may_enter
from ledger.authorization.permissions import people_who_may
from ledger.errors import Invalid
from ledger.models import Project
from retries.models import Channel
from retries.models.notification_channel import ChannelKind, Digest
from retries.notifications import channels
from retries.notifications.channels import ChannelSpec
from retries.notifications.services import kinds
from retries.notifications.services.kinds import Field, Kind

PEOPLE_LISTED = 200


@dataclass(frozen=True, slots=True)
class FilledField:
    """A field of the channel's kind with what stands in it; a stored secret is never in it."""

    field: Field
    value: str
    error: str
    is_kept: bool  # an empty field keeps the stored value


@dataclass(slots=True)
class ChannelForm:
    """The values of the form as they were typed, and what is wrong with them."""

    values: dict[str, str]
    kind: Kind
    project: Project | None = None  # the channel's, or None for every project
    stored: Mapping[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    kinds: tuple[Kind, ...] = kinds.KINDS
    digests: tuple[str, ...] = tuple(Digest.values)

    @property
    def is_webhook(self) -> bool:
        return self.kind is kinds.WEBHOOK

    @property
    def fields(self) -> Iterator[FilledField]:
        for each in self.kind.fields:
            is_shown = not each.is_secret or not self.kind.schemes
            yield FilledField(
                each,
                self.values.get(each.name, "") if is_shown else "",
                self.errors.get(each.name, ""),
                is_kept=each.is_secret and any(map(self.stored.get, each.holes)),
            )

    @property
    def people(self) -> list[str]:
        users = list_people(self.project)[:PEOPLE_LISTED]
        return [user.username for user in users if self.project or may_enter(user)]

    def read(self) -> dict[str, Any]:
        value = self.values.get
        said: dict[str, Any] = {
            "name": value("name", "").strip(),
            "include_details": "include_details" in self.values,
            "person": list_people(self.project).filter(username=value("person", "")).first(),
        }
        if self.is_webhook:
            said["events"] = tuple(value("events", "").replace(",", " ").split())
        elif "digest" in self.values:
            hour = read_whole_number(value("digest_hour", "8"))
            said |= {
                "digest": value("digest"),
                "digest_hour": -1 if hour is None else hour,
                "digest_timezone": value("digest_timezone", "").strip() or "UTC",
            }
        holes = self.kind.read_fields(self.values, self.stored)
        # Without a typed address, the stored one stays.
        if holes != self.stored:
            said["url"] = self.kind.write_url(holes)
        return said

    def read_new(self) -> ChannelSpec:
        kind = ChannelKind.WEBHOOK if self.is_webhook else ChannelKind.PERSON
        return ChannelSpec(kind=kind, **self.read())

    def note(self, refusal: Invalid) -> None:
        shown = {"name", "events", *channels.DIGEST, *(each.name for each in self.kind.fields)}
        for error in refusal.more["errors"]:
            name = str(error["pointer"]).split("/")[1]
            self.errors[name if name in shown else "form"] = str(error["detail"])


def list_people(project: Project | None) -> QuerySet[User]:
    # A project's admins may not know of other people.
    if project:
        return people_who_may("retries.view_escalation", project.pk)
    return User.objects.filter(is_active=True).order_by("username")


def form_of(
    channel: Channel | None, project: Project | None, kind_name: str = "", *, zone: str = "UTC"
) -> ChannelForm:
    if channel is None:
        kind = kinds.find_kind(kind_name)
        values = {each.name: each.default for each in kind.fields}
        digest = {"digest": Digest.OFF.value, "digest_hour": "8", "digest_timezone": zone}
        return ChannelForm(values | digest, kind, project)
    kind, stored = channels.open_channel(channel)
    # Stored secrets stay out of the form.
    values = {
        **{each.name: stored.get(each.name, "") for each in kind.fields if not each.is_secret},
        "name": channel.name,
        "events": " ".join(channel.events),
        "person": channel.person.username if channel.person else "",
        "version": str(channel.version),
        **{name: str(getattr(channel, name)) for name in channels.DIGEST},
    }
    boxes = {"include_details": "on"} if channel.include_details else {}
    return ChannelForm(values | boxes, kind, channel.project, stored)


def posted_form(
    posted: Mapping[str, str], project: Project | None, channel: Channel | None
) -> ChannelForm:
    values = {name: value.replace("\0", "") for name, value in posted.items()}
    kind, stored = kinds.find_kind(values.get("kind", "")), dict[str, str]()
    if channel:
        kind, stored = channels.open_channel(channel)
    return ChannelForm(values, kind, project, stored)
