"""Kinds of channels (OPR-10): what a person fills in makes the URL, and the URL reads back."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ledger.errors import Invalid
from retries.notifications.services import kinds
from retries.notifications.services.kinds import Field, Kind
from retries.notifications.services.plugins import make_plugin
from tests.serving import ROOT

TYPED = [each for each in kinds.KINDS if each.schemes]
TEXT = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=30)
TEAMS_ADDRESS = (
    "https://a1.environment.api.powerplatform.com:443/powerautomate/automations/direct/cu/04"
    "/workflows/0f3a/triggers/manual/paths/invoke?api-version=1&sp=%2Ftriggers%2Frun&sv=1.0&sig=Ab-_9"
)


SAMPLES = {
    "server": ("smtp.example.com", "10.0.0.5", "mail", "a-1.b2.example.co.uk"),
    "port": ("1", "587", "65535"),
    "to": ("a@example.org", "a.b+c@example.org, d@x-y.example.org", "a@example.org,b@example.org"),
    "from": ("tenfour@example.com", "ten+four@example.com"),
    "topic": ("night", "a-b_C9"),
    "chat": ("-1001234567890", "@oncall"),
    "room": ("#agents", "agents", "#große-wörter", "+C0123ABC"),
    "key": ("a" * 32,),
    "slack.token": (
        f"xoxb-{'1' * 12}-{'2' * 12}-{'a' * 24}",
        "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
    ),
    "telegram.token": ("123456789:AAE_abcdefgh-ijkl",),
    "ntfy.token": ("tk_abc123",),
    "discord.webhook": (
        "https://discord.com/api/webhooks/4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
        "https://canary.discordapp.com/api/webhooks/1/a-b",
    ),
    "teams.webhook": (
        TEAMS_ADDRESS,
        "https://prod-1.westeurope.logic.azure.com/workflows/0f3a/triggers/manual/paths/invoke?sig=Ab",
    ),
}  # fmt: skip


def texts_of(field: Field, kind: Kind) -> st.SearchStrategy[str]:
    """Return what a person may type into a field; users and passwords are free text."""
    known = SAMPLES.get(f"{kind.name}.{field.name}") or SAMPLES.get(field.name)
    return st.sampled_from(list(field.choices or known or ())) if field.choices or known else TEXT


def filled(kind: Kind) -> st.SearchStrategy[dict[str, str]]:
    needed = {each.name: texts_of(each, kind) for each in kind.fields if each.is_required}
    others = {each.name: texts_of(each, kind) for each in kind.fields if not each.is_required}
    return st.fixed_dictionaries(needed, optional=others)


def describe_plugin(plugin: Any, kind: Kind) -> dict[str, str]:
    """Return what apprise understood, by the names of the kind's holes."""
    of = vars(plugin).get
    if kind is kinds.EMAIL:
        found = {
            "to": ", ".join(address for _, address in plugin.targets),
            "from": plugin.from_addr[1],
            "server": plugin.smtp_host,
            "security": plugin.secure_mode,
        }
        return found | {"user": of("user"), "password": of("password")}
    named: dict[str, Any] = {
        "slack": lambda: {
            "app": of("access_token"), "a": of("token_a"), "b": of("token_b"), "c": of("token_c"),
            "room": plugin.channels[0],
        },
        "discord": lambda: {"id": of("webhook_id"), "key": of("webhook_token")},
        "teams": lambda: {
            "host": of("host"), "flow": of("workflow"), "sig": of("signature"),
            "ver": of("api_version"), "cu": of("routing_id"),
        },
        "telegram": lambda: {
            "bot": plugin.bot_token.partition(":")[0], "token": plugin.bot_token.partition(":")[2],
            "chat": str(plugin.targets[0][0]),
        },
        "ntfy": lambda: {
            "server": of("host"), "topic": plugin.topics[0], "token": of("token"),
            "security": "https" if plugin.secure else "http",
        },
        "pagerduty": lambda: {
            "key": of("integration_key"), "severity": of("severity"), "region": of("region_name"),
        },
    }  # fmt: skip
    return dict(named[kind.name]())


@pytest.mark.parametrize("kind", TYPED, ids=lambda kind: kind.name)
def test_fields_make_a_url_that_reads_back_and_that_apprise_reads_alike(kind: Kind) -> None:
    @settings(max_examples=15, deadline=None, phases=(Phase.generate,))
    @given(filled(kind))
    def check(typed: dict[str, str]) -> None:
        try:
            values = kind.read_fields(typed, {})
        except Invalid as refusal:
            refused = refusal.more["errors"][0]["pointer"]
            assert refused in ("/user", "/password", "/room"), refusal.detail
            return
        url = kind.write_url(values)
        assert values.items() <= (kind.read_url(url) or {}).items()
        assert kind.read_fields(typed, values) == values
        plugin = make_plugin(url)
        assert plugin, url
        for hole, found in describe_plugin(plugin, kind).items():
            stored = values.get(hole)
            if hole == "to" and stored:
                stored = ", ".join(re.split(r"\s*,\s*", stored))
            if hole == "chat" and stored and stored.lstrip("-").isdigit():
                stored = str(int(stored))
            if stored is not None or hole in ("user", "password", "token"):
                assert (found or "").lower() == (stored or "").lower(), (hole, url)

    check()


READ = {
    "mailtos://u%40x.org:p%3Aw@smtp.example.com?from=t@example.com&to=a@example.org,b@example.org": (
        kinds.EMAIL, "a@example.org,b@example.org",
    ),
    "mailto://10.0.0.5:25?from=t@example.com&to=a@example.org": (kinds.EMAIL, "a@example.org"),
    "slack://xoxb-1-2-a/#agents": (kinds.SLACK, "#agents in Slack"),
    "slack://T1/B1/abc/%23agents": (kinds.SLACK, "#agents in Slack"),
    "slack://T1/B1/abc": (kinds.SLACK, "Slack"),
    "ntfys://ntfy.sh/night?token=tk_1": (kinds.NTFY, "topic night on ntfy.sh"),
    "tgram://12:ab/-100": (kinds.TELEGRAM, "chat -100 in Telegram"),
    "discord://12/ab": (kinds.DISCORD, "the webhook’s channel in Discord"),
}  # fmt: skip
UNREAD = {
    kinds.EMAIL.name: (
        "mailtos://u:p@smtp.example.com/a@example.org?from=t@example.com",
        "mailtos://smtp.example.com?from=t@example.com&to=a@example.org&cc=b@example.org",
        "mailtos://smtp.example.com?from=Ops<t@example.com>&to=a@example.org",
        "mailtos://smtp.example.com?smtp=other.example.com&from=t@example.com&to=a@example.org",
        "mailtos://smtp.example.com?from=t@example.com&to=a@example.org&to=b@example.org",
        "mailtos://smtp.example.com?mode=odd&from=t@example.com&to=a@example.org",
    ),
    "slack": ("slack://xoxb-1-2-a/#one/#two", "slack://T1/B1/abc/#a?footer=no"),
    "ntfy": ("ntfys://user:pass@ntfy.sh/topic", "ntfys://ntfy.sh/topic?priority=high"),
}


def test_a_stored_url_opens_in_its_kind_only_if_the_fields_say_all_of_it() -> None:
    """A URL with anything else stays under Other, so that saving never drops a part."""
    for url, (kind, recipient) in READ.items():
        values = kind.read_url(url)
        assert values and kind.describe_recipient(values) == recipient, url
        assert kind.read_url(kind.write_url(values)) == values
    for name, urls in UNREAD.items():
        for url in urls:
            assert kinds.find_kind(name).read_url(url) is None, url


def test_a_secret_stays_only_where_it_was_entered_for() -> None:
    typed = {
        "to": "a@example.org", "server": "smtp.example.com", "security": "starttls",
        "user": "u@example.com", "password": "s3cret", "from": "t@example.com",
    }  # fmt: skip
    stored = kinds.EMAIL.read_fields(typed, {})
    later = typed | {"password": "", "to": "b@example.org"}
    assert kinds.EMAIL.read_fields(later, stored) == stored | {"to": "b@example.org"}
    for name, text in (("server", "evil.example.com"), ("security", "insecure"), ("port", "26")):
        with pytest.raises(Invalid, match="Enter it again"):
            kinds.EMAIL.read_fields(later | {name: text}, stored)
    assert kinds.EMAIL.read_fields(typed | {"server": "new.example.com"}, stored)
    wrong = ({"to": "oncall"}, {"server": "a/b"}, {"port": "x"}, {"security": "odd"}, {"from": ""})
    for change in wrong:
        with pytest.raises(Invalid) as refusal:
            kinds.EMAIL.read_fields(typed | change, {})
        assert [each["pointer"] for each in refusal.value.more["errors"]] == [
            f"/{next(iter(change))}"
        ]


@pytest.mark.parametrize(
    ("kind", "error", "advice"),
    [
        (kinds.EMAIL, "535 5.7.8 Authentication failed", "Check: User, Password."),
        (kinds.EMAIL, "550 No such user here", "Check: To."),
        (kinds.EMAIL, "[Errno 111] Connection refused", "Check: Mail server, Port, Security."),
        (kinds.EMAIL, "[SSL: WRONG_VERSION_NUMBER]", "Check: Mail server, Port, Security."),
        (kinds.SLACK, "Slack refused chat.postMessage: channel_not_found", "Check: Channel."),
        (kinds.SLACK, "invalid_auth", "Check: App token or webhook address."),
        (kinds.NTFY, "HTTP 403", "Check: Access token."),
        (kinds.WEBHOOK, "HTTP 500", ""),
    ],
)
def test_a_failure_says_what_to_change(kind: Kind, error: str, advice: str) -> None:
    assert kind.advise(error) == advice


def test_the_docs_list_every_field() -> None:
    """The table of docs/notifications.md follows the declarations."""
    lines = []
    for kind in kinds.KINDS:
        fields = ", ".join(
            each.label + ("" if each.is_required else " (optional)") for each in kind.fields
        )
        sample = {each.name: f"*{each.name}*" for each in kind.fields} | {"room": "*channel*"}
        to = kind.describe_recipient(sample) or "the address without its secrets"
        lines.append(f"| {kind.label} | {fields} | {to} |\n")
    assert "".join(lines) in Path(ROOT, "docs/notifications.md").read_text(encoding="utf-8")
