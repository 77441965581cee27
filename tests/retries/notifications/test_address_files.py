"""No address of a channel makes the server read a file (SEC-5): it is refused, and guarded."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import Invalid
from ledger.secrets import encryption
from retries.models import Channel
from retries.notifications.addresses.guard import Connections
from retries.notifications.messages.wording import Message
from retries.notifications.services import person_services
from retries.notifications.services.plugins import find_plugin, make_asset
from tests.factories import make_agent, make_project
from tests.retries.notifications.receivers import Receiver, make_person_channel, run_clock
from tests.retries.notifications.test_rules import escalate
from tests.serving import ROOT

SERVICES = {
    "workflows://1.1.1.1/w/s": ("template",),
    "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js": ("template",),
    "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ": ("template",),
    "tgram://123456789:abcdefg_hijklmnop/12315544": ("template",),
    "fcm://project/@topic": ("keyfile",),
    "vapid://user@example.com": ("keyfile", "subfile"),
    "ntfy://1.1.1.1/topic": ("attach",),
    "mailto://1.1.1.1?from=a@example.com&to=b@example.com": ("pgp", "pgppub", "pgpprv"),
    "synology://1.1.1.1/token": ("file_url",),
}
KEYS = ("{}", "{} ", "+{}", "-{}", ":{}", "%2B{}", "%20{}")
VALUES = (
    "/srv/shape.json",
    "%2Fsrv/shape.json",
    "%252Fsrv/shape.json",
    "%20/srv/shape.json",
    "config/../../shape.json",
    "shape.json",
    "~/shape.json",
    "FILE:///srv/shape.json",
    "https://1.1.1.1/shape.json",
    "",
)


def list_notations(name: str) -> set[str]:
    """Return the ways to write a parameter whose name a service reads as `name`."""
    encoded = "".join(f"%{ord(each):02x}" for each in name)
    keys = {key.format(name) for key in KEYS} | {name.upper(), name.title(), encoded}
    pairs = {f"{key}={value}" for key in keys for value in VALUES}
    return pairs | {name, f"verify=no;{name}=x", f"{name}=&{name}=x", f"{name}=x&verify=yes"}


@pytest.mark.parametrize("url", SERVICES)
def test_a_parameter_that_names_a_file_is_refused_in_every_notation(url: str) -> None:
    """The names are compared as apprise reads them, and their values do not matter."""
    for name in SERVICES[url]:
        for notation in list_notations(name):
            with pytest.raises(Invalid, match="would read a file of the server"):
                person_services.read_service(f"{url}{'&' if '?' in url else '?'}{notation}")


@pytest.mark.parametrize(
    "url",
    [
        "mailto://1.1.1.1?from=a@example.com&to=b@example.com&cc=c@example.com&name=Ops&smtp=1.1.1.1",
        "ntfy://1.1.1.1/topic?priority=high&tags=warning&click=https://example.com/&icon=/i.png",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#agents?footer=no&image=no",
        "json://1.1.1.1/a?+X-Header=./x&:field=x&-param=/y&method=PUT",
        "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js?avatar_url=https://example.com/a.png",
        "fcm://project/@topic?mode=legacy&apikey=abc&+field=x",
        "mailtos://user:pass@1.1.1.1:587?from=a@example.com&to=b@example.com&mode=starttls&verify=no&rto=3",
    ],
)
def test_the_parameters_of_a_service_are_taken(url: str) -> None:
    """Those that the service declares, whatever their values look like."""
    try:
        assert person_services.read_service(url).name
    except Invalid as error:
        pytest.fail(error.detail)


def test_a_parameter_that_a_service_does_not_have_is_refused() -> None:
    """Whatever apprise reads one day without declaring it is not taken."""
    for pair in ("unknown=x", "+header=x", "payload=x"):
        with pytest.raises(Invalid, match="has no parameter '"):
            person_services.read_service(f"ntfy://1.1.1.1/topic?{pair}")


REFUSED = """
from collections import defaultdict
import json
from retries.notifications.addresses.parameters import label_parameters, names_file
from retries.notifications.services.plugins import find_plugin, index_schemes

plugins = {find_plugin(scheme) for scheme in index_schemes()} - {None}
found = defaultdict(set)
for plugin in plugins:
    for name, label in label_parameters(plugin).items():
        if names_file(name, label):
            found[name].add(label)
print(json.dumps({name: sorted(labels) for name, labels in found.items()}))
"""


def test_what_names_a_file_follows_from_what_every_service_declares() -> None:
    """A new version of apprise that adds a parameter for a file changes this table."""
    run = subprocess.run([sys.executable, "-c", REFUSED], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {
        "attach": ["Attach"],
        "attach-as": ["Attach File As"],
        "file_url": ["Upload"],
        "filename": ["Attach Filename"],
        "fullpath": ["Path"],
        "keyfile": ["OAuth2 KeyFile", "PEM Private KeyFile"],
        "path": ["Path"],
        "pgp": ["PGP Security Mode"],
        "pgpprv": ["PGP Private Key Path"],
        "pgppub": ["PGP Public Key Path"],
        "subfile": ["Subscripion File"],
        "template": ["Rich Message Template Path", "Template Path"],
        "workflow_path": ["Workflow Path"],
    }


# ---- the guard behind the check

SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#agents"


@pytest.fixture
def shape(tmp_path: Path) -> Path:
    """A file that a template of Slack may be."""
    file = tmp_path / "shape.json"
    file.write_text(json.dumps({"text": "of a file", "blocks": [{"type": "divider"}]}))
    return file


def test_a_plugin_opens_no_file(
    receiver: Receiver, shape: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A template that got past the check is not read, and nothing is sent."""
    from apprise.plugins.slack import NotifySlack

    monkeypatch.setattr(NotifySlack, "webhook_url", f"http://127.0.0.1:{receiver.port}/services")
    receiver.text = b"ok"
    plugin = build_unchecked(f"{SLACK}?template={shape}")
    answer = person_services.send_guarded(plugin, Message("a", "b"), Connections())
    assert not answer.succeeded and receiver.received == []
    plugin = build_unchecked(SLACK)
    assert person_services.send_guarded(plugin, Message("a", "b"), Connections()).succeeded


def build_unchecked(url: str) -> Any:
    plugin = find_plugin("slack")
    return plugin(**plugin.parse_url(url.replace("/#", "/%23")) | {"asset": make_asset()})


@pytest.mark.django_db(transaction=True)
def test_a_stored_address_that_is_no_longer_allowed_says_so(
    receiver: Receiver, shape: Path
) -> None:
    """A row that an earlier version took is not sent to, and its error says what to do."""
    url = f"ntfy://127.0.0.1:{receiver.port}/oncall"
    channel = make_person_channel(url, project=make_project())
    stored = encryption.encrypt(f"{SLACK}?template={shape}")
    Channel.objects.filter(pk=channel.pk).update(address=stored)
    escalate(make_agent(), "Rename the column")
    run_clock()
    channel.refresh_from_db()
    assert channel.last_error == (
        "The parameter 'template' would read a file of the server. "
        "Enter the channel's address again."
    )
    assert receiver.received == []
