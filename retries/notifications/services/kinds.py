"""The kinds of channels: which fields a person fills in, and which URL the fields make.

Each kind is one declaration. Its address is a pattern with holes, by which its URL is written and
read; a URL that no pattern covers belongs to `OTHER`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote

from ledger.errors import Invalid
from retries.models import Channel

HOLE = re.compile(r"\{(\w+)(?::([^{}]+))?\}")  # a name, and what fits where not everything does
OPTIONAL = re.compile(r"\[([^][]*)\]")  # left out where one of its holes is empty
FILLED = "[^/?#@:;]+"
# A stored secret is not sent to another server than it was entered for.
TARGET = ("server", "port", "security")
# what to change after a failure with such a text: the first whose fields the kind has
ADVICE = {
    r"certificate|SSL|TLS": TARGET,
    r"\b53[045]\b|\b40[13]\b|\bauth|_auth": ("user", "password", "token", "webhook", "key"),
    r"\b55\d\b|recipient|not_in_channel|chat not found": ("to", "room", "chat"),
    r"\b404\b|\b410\b|not.found": ("room", "webhook", "chat", "topic", "url"),
    r"refused|no answer|timed out|resolve|not known|closed|public": (*TARGET, "url"),
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a kind's form. The named groups of its shape fill holes of the address."""

    name: str
    label: str
    hint: str = ""
    is_required: bool = True
    is_secret: bool = False
    shape: str = ".+"
    choices: Mapping[str, str] = field(default_factory=dict)
    default: str = ""

    @property
    def holes(self) -> tuple[str, ...]:
        return tuple(re.compile(self.shape).groupindex) or (self.name,)

    def fits(self, text: str) -> bool:
        return text in self.choices if self.choices else bool(re.fullmatch(self.shape, text))

    def read(self, text: str) -> dict[str, str]:
        """Return the values that a text puts into the holes; raise Invalid if it does not fit."""
        found = re.fullmatch(self.shape, text)
        if not found or not self.fits(text):
            raise Invalid(f"/{self.name}", f"This is not valid. {self.hint}".strip())
        return found.groupdict() or {self.name: text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of channel; one without schemes takes a URL as it is."""

    name: str
    label: str
    icon: str
    fields: tuple[Field, ...]
    services: tuple[str, ...] = ()  # as channels name them
    schemes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # and what each implies
    addresses: tuple[str, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict)  # the hole of each
    recipient: str = ""

    def write_url(self, values: Mapping[str, str]) -> str:
        if not self.schemes:
            return values["url"]
        quoted = {hole: quote(text, safe="") for hole, text in values.items()}
        fit = (name for name, implied in self.schemes.items() if implied.items() <= values.items())
        scheme = next(fit, next(iter(self.schemes)))
        paths = (fill(each, quoted) for each in self.addresses)
        path = next((each for each in paths if each), None)
        if path is None:
            unfilled = (each for each in self.fields if each.name not in values)
            missing = next(each for each in unfilled if not each.is_secret)
            raise Invalid(f"/{missing.name}", f"{missing.label} is required. {missing.hint}")
        pairs = [f"{name}={quoted[hole]}" for name, hole in self.params.items() if hole in quoted]
        return "?".join(filter(None, (f"{scheme}://{path}", "&".join(pairs))))

    def read_url(self, url: str) -> dict[str, str] | None:
        """Return a URL's values for the holes; None if it has anything else."""
        if not self.schemes:
            return {"url": url}
        scheme, _, rest = url.replace("/#", "/%23").partition("://")
        path, _, query = rest.partition("?")
        found = next(filter(None, (match(each, path.rstrip("/")) for each in self.addresses)), None)
        if scheme not in self.schemes or found is None or ";" in query:
            return None
        for name, text in parse_qsl(query, keep_blank_values=True):
            hole = self.params.get(name, "")
            if not hole or not text or found.setdefault(hole, text) != text:
                return None
        values = {**self.schemes[scheme], **found}
        shown = (each for each in self.fields if not each.is_secret and each.name in values)
        return values if all(each.fits(values[each.name]) for each in shown) else None

    def read_fields(self, typed: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
        """Return the holes' values; a secret that is left empty keeps its stored value."""
        values: dict[str, str] = {}
        for each in self.fields:
            if text := typed.get(each.name, "").strip():
                values |= {hole: part for hole, part in each.read(text).items() if part}
            elif each.is_secret and any(map(stored.get, each.holes)):
                if any(typed.get(name, "") != stored.get(name, "") for name in TARGET):
                    raise Invalid(f"/{each.name}", "Enter it again: it would go to another server.")
                values |= {hole: stored[hole] for hole in each.holes if hole in stored}
            elif each.is_required:
                raise Invalid(f"/{each.name}", f"{each.label} is required. {each.hint}".strip())
        lost = values.keys() - (self.read_url(self.write_url(values)) or {}).keys()
        for each in self.fields:
            if each.name in lost:
                raise Invalid(f"/{each.name}", "User and password: enter both, or none.")
        return values

    def describe_recipient(self, values: Mapping[str, str]) -> str:
        return fill(self.recipient, values) or "" if values else ""

    def advise(self, error: str) -> str:
        for pattern, names in ADVICE.items():
            labels = [each.label for each in self.fields if each.name in names]
            if labels and re.search(pattern, error, re.IGNORECASE):
                return f"Check: {', '.join(labels)}."
        return ""


def fill(pattern: str, values: Mapping[str, str]) -> str | None:
    """Return a pattern with its holes filled, or None if one that it needs is empty.

    >>> fill("[{a} in ]Slack", {}), fill("[{a} in ]Slack", {"a": "#x"}), fill("{a}", {})
    ('Slack', '#x in Slack', None)
    """

    def has_all(part: str) -> bool:
        return all(values.get(found[1]) for found in HOLE.finditer(part))

    needed = OPTIONAL.sub(lambda part: part[1] if has_all(part[1]) else "", pattern)
    return HOLE.sub(lambda found: values[found[1]], needed) if has_all(needed) else None


def match(pattern: str, path: str) -> dict[str, str] | None:
    regex = HOLE.sub(
        lambda hole: f"(?P<{hole[1]}>{hole[2] or FILLED})", OPTIONAL.sub(r"(?:\1)?", pattern)
    )
    found = re.fullmatch(regex, path)
    return found and {hole: unquote(text) for hole, text in found.groupdict().items() if text}


# ---- the declarations

LOCAL_PART = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
LABEL = r"(?:[A-Za-z0-9][A-Za-z0-9-]{0,61}[A-Za-z0-9]|[A-Za-z])"
OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
# apprise takes any other host for a topic of ntfy.sh
HOST = rf"(?=.*[A-Za-z]){LABEL}(?:\.{LABEL})*|{OCTET}(?:\.{OCTET}){{3}}"
MAIL = rf"{LOCAL_PART}(?:\+{LOCAL_PART})?@(?:{LABEL}\.)+[A-Za-z]{{2,}}"
SLACK_TOKEN = (
    r"(?P<app>xox\w(?:-\w+)+)"
    r"|(?:https://hooks\.slack\.com/services/)?(?P<a>\w+)/(?P<b>\w+)/(?P<c>\w+)/?"
)
HOOK = r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/(?P<id>\d+)/(?P<key>[\w-]+)/?"
FLOW = (
    r"https://(?P<host>[\w.-]+)(?::(?P<port>\d+))?"
    r"(?:/(?P<pa>powerautomate)/automations/direct(?:/cu/(?P<cu>\d+))?)?"
    r"/workflows/(?P<flow>[\w-]+)/triggers/manual/paths/invoke/?"
    r"\?(?:(?=.*\bapi-version=(?P<ver>[\w.-]+))|)(?=.*\bsig=(?P<sig>[\w-]+)).*"
)
SEVERITIES = {each: each for each in ("critical", "error", "warning", "info")}
PORT = Field("port", "Port", "Empty for the usual one", is_required=False, shape=r"\d{1,5}")


def secret(name: str, label: str, hint: str = "", shape: str = ".+", needed: bool = True) -> Field:
    return Field(name, label, hint, needed, is_secret=True, shape=shape)


def choice(name: str, label: str, choices: Mapping[str, str]) -> Field:
    return Field(name, label, choices=choices, default=next(iter(choices)))


EMAIL = Kind(
    name="email", label="Email", icon="ch-mail", services=("Email",),
    schemes={"mailtos": {"security": "starttls"}, "mailto": {"security": "insecure"}},
    addresses=("[{user}:{password}@]{server}[:{port}]",), recipient="{to}",
    params={"mode": "security", "smtp": "server", "from": "from", "to": "to"},
    fields=(
        Field("to", "To", "One or more, separated by commas", shape=rf"{MAIL}(?:\s*,\s*{MAIL})*"),
        Field("server", "Mail server", "Such as smtp.example.com", shape=HOST),
        PORT,
        choice("security", "Security", {"starttls": "STARTTLS", "ssl": "TLS", "insecure": "None"}),
        Field("user", "User", "As it is, with its @", is_required=False),
        secret("password", "Password", needed=False),
        Field("from", "From", "The sender’s address", shape=MAIL),
    ),
)  # fmt: skip
SLACK = Kind(
    name="slack", label="Slack", icon="ch-chat", services=("Slack app", "Slack"),
    schemes={"slack": {}}, recipient="[{room} in ]Slack",
    addresses=(r"{app:xox\w(?:-\w+)+}/{room}", r"{a:\w+}/{b:\w+}/{c:\w+}[/{room}]"),
    fields=(
        secret("token", "App token or webhook address",
               "An app’s xoxb-…, with the scope chat:write, replies in threads. "
               "https://hooks.slack.com/services/… can’t", SLACK_TOKEN),
        Field("room", "Channel", "Such as #agents. The app must be in it", False,
              shape=r"[#@+]?[\w.-]+"),
    ),
)  # fmt: skip
DISCORD = Kind(
    name="discord", label="Discord", icon="ch-chat", services=("Discord",), schemes={"discord": {}},
    addresses=("{id}/{key}",), recipient="the webhook’s channel in Discord",
    fields=(secret("webhook", "Webhook address", "https://discord.com/api/webhooks/…", HOOK),),
)  # fmt: skip
TEAMS = Kind(
    name="teams", label="Microsoft Teams", icon="ch-chat",
    services=("Power Automate / Workflows (for MSTeams)",),
    schemes={"workflows": {}}, recipient="the workflow’s channel in Teams",
    addresses=("{host}[:{port}]/{flow}/{sig}",), params={"ver": "ver", "pa": "pa", "route": "cu"},
    fields=(secret("webhook", "Workflow address", "https://…/manual/paths/invoke?…", FLOW),),
)  # fmt: skip
TELEGRAM = Kind(
    name="telegram", label="Telegram", icon="ch-chat", services=("Telegram",),
    schemes={"tgram": {}}, addresses=("{bot}:{token}/{chat}",), recipient="chat {chat} in Telegram",
    fields=(
        secret("token", "Bot token", "From @BotFather: 1234567890:AA…",
               r"(?P<bot>\d+):(?P<token>[\w-]+)"),
        Field("chat", "Chat", "Its ID, such as -1001234567890, or @channel", shape=r"-?\d+|@\w+"),
    ),
)  # fmt: skip
NTFY = Kind(
    name="ntfy", label="ntfy", icon="ch-push", services=("ntfy",),
    schemes={"ntfys": {"security": "https"}, "ntfy": {"security": "http"}},
    addresses=("{server}[:{port}]/{topic}",), params={"token": "token"},
    recipient="topic {topic} on {server}",
    fields=(
        Field("topic", "Topic", "Letters, digits, - and _", shape=r"[A-Za-z0-9_-]+"),
        Field("server", "Server", "Such as ntfy.sh", shape=HOST, default="ntfy.sh"),
        PORT,
        choice("security", "Security", {"https": "HTTPS", "http": "None (HTTP)"}),
        secret("token", "Access token", "Only for a protected topic", r"[\w-]+", needed=False),
    ),
)  # fmt: skip
PAGERDUTY = Kind(
    name="pagerduty", label="PagerDuty", icon="bell", services=("Pager Duty",),
    schemes={"pagerduty": {"severity": "info", "region": "us"}},
    # apprise needs a key of the account, which the Events API does not look at
    params={"severity": "severity", "region": "region"}, recipient="the key’s service in PagerDuty",
    addresses=("{key}@{account}", "{key}@tenfour"),
    fields=(
        secret("key", "Integration key", "Of an Events API v2 integration",
               r"(?P<key>\w+)(?:@(?P<account>[\w+-]+))?"),
        choice("severity", "Severity", SEVERITIES),
        choice("region", "Region", {"us": "US", "eu": "EU"}),
    ),
)  # fmt: skip
WEBHOOK = Kind(name="webhook", label="Webhook", icon="ch-hook", services=("Webhook",),
               fields=(secret("url", "Address", "Of a program: https://…"),))  # fmt: skip
OTHER = Kind(name="other", label="Other", icon="ch-push", fields=(
    secret("url", "Address", "As appriseit.com/services has it: pover://…"),))  # fmt: skip
KINDS = (EMAIL, SLACK, DISCORD, TEAMS, TELEGRAM, NTFY, PAGERDUTY, WEBHOOK, OTHER)


def find_kind(name: str) -> Kind:
    return next((each for each in KINDS if each.name == name), EMAIL)


def kind_of(channel: Channel) -> Kind:
    return next((each for each in KINDS if channel.service in each.services), OTHER)
