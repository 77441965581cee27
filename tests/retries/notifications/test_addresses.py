"""The guard of addresses (api.md §12.3), when a channel is saved and at each connection."""

import socket
from typing import Any

import pytest
from django.conf import settings

from ledger.errors import Invalid
from ledger.models import Project
from retries.notifications.addresses import checks as addresses
from retries.notifications.addresses import http_post
from retries.notifications.addresses.checks import ForbiddenAddress
from retries.notifications.messages.wording import Message
from retries.notifications.services import person_services
from tests.retries.notifications.receivers import Receiver

SPECIAL = (
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "0.0.0.0", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1",
    "::1", "::", "fe80::1", "fc00::1", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1",
    "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::",
    "2001::1", "fe80::1%lo", "100::1", "192.88.99.1", "192.31.196.1", "192.52.193.1",
    "192.175.48.1", "192.0.0.9", "3fff::1", "3fff:fff::1", "5f00::1", "2001:2::1", "2001:20::1",
    "2620:4f:8000::1", "fec0::1", "100:0:0:1::1", "::ffff:192.88.99.1", "2001:10::1",
)  # fmt: skip


def test_only_public_addresses_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every special network is refused, wrapped in IPv6 or not; what is named is allowed."""
    for address in SPECIAL:
        with pytest.raises(ForbiddenAddress, match="not a public address"):
            addresses.check_address(address, host="h.example", port=443)
    for address in (
        "1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "192.31.197.1", "192.88.98.1",
        "2001:4860:4860::8888", "2620:4f:8001::1", "3fff:1000::1",
    ):  # fmt: skip
        addresses.check_address(address, host="h.example", port=443)
    named = ["10.0.0.5:3000", "ntfy.lan", "fd00::/8", "192.168.0.0/16:8080"]
    monkeypatch.setitem(settings.TENFOUR, "WEBHOOK_ALLOW", named)
    for address, host, port, allowed in (
        ("10.0.0.5", "10.0.0.5", 3000, True),
        ("::ffff:10.0.0.5", "x", 3000, True),
        ("10.0.0.5", "10.0.0.5", 80, False),
        ("10.0.0.9", "NTFY.lan.", 80, True),
        ("10.0.0.9", "other.lan", 80, False),
        ("fd00::7", "x", 9999, True),
        ("192.168.3.4", "x", 8080, True),
        ("192.168.3.4", "x", 8081, False),
    ):
        try:
            addresses.check_address(address, host=host, port=port)
            assert allowed, (address, port)
        except ForbiddenAddress:
            assert not allowed, (address, port)


@pytest.mark.parametrize(
    "url",
    [
        "http://1.1.1.1/", "https://1.1.1.1:25/", "https://u:p@1.1.1.1/", "https://", "https:///x",
        "https://1.1.1.1:99999/", "https://[fe80::1%25lo]/", "https://2130706433/", "https://0x7f.1/",
        "https://127.1/", "https://1.1.1.1/\r\nX: y", "https://1.1.1.1/ü", "gopher://1.1.1.1/",
        "https://no-such-host.invalid/", "https://" + "a" * 300 + "/",
    ],
)  # fmt: skip
def test_a_bad_url_is_refused_when_it_is_saved(url: str) -> None:
    with pytest.raises(Invalid):
        addresses.check_url(url)


def test_a_name_is_checked_at_each_call_and_its_address_is_pinned(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is public when saved and private when called reaches nothing.

    The resolver is the part that an attacker controls, so the test controls it.
    """
    answers: list[str] = []
    resolve = socket.getaddrinfo

    def answer(host: Any, port: Any, *args: Any, **more: Any) -> Any:
        if host == "rebind.example":
            found = answers.pop(0)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, port))]
        return resolve(host, port, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setitem(settings.TENFOUR, "WEBHOOK_ALLOW", [])
    answers[:] = ["1.1.1.1"]
    url = "https://rebind.example/"
    assert addresses.check_url(url) == url and not answers
    answers[:] = ["127.0.0.1"]
    refused = http_post.post(url, b"{}", {})
    assert refused.code is None and "not a public address" in refused.error and not answers
    # one bad address among good ones is enough
    monkeypatch.setattr(addresses, "resolve", lambda *_: ["1.1.1.1", "10.0.0.1"])
    with pytest.raises(ForbiddenAddress):
        addresses.resolve_checked("rebind.example", 443)
    monkeypatch.undo()
    # the connection goes to the checked address: the name is resolved once
    asked: list[Any] = []

    def count(host: Any, *args: Any, **more: Any) -> Any:
        asked.append(host)
        return resolve(host, *args, **more)

    monkeypatch.setitem(settings.TENFOUR, "WEBHOOK_ALLOW", [f"localhost:{receiver.port}"])
    monkeypatch.setattr(socket, "getaddrinfo", count)
    sent = http_post.post(f"http://localhost:{receiver.port}/x", b"{}", {})
    assert sent.code == 200 and asked.count("localhost") == 1
    assert receiver.received[0].headers["host"] == f"localhost:{receiver.port}"


def test_services_for_people_are_guarded_at_each_connection(
    receiver: Receiver, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever name or redirect leads a service to a private address, nothing is sent."""
    message = Message("Needs you", "text")
    url = f"ntfy://127.0.0.1:{receiver.port}/oncall"
    assert person_services.send(url, message).code == 200
    receiver.answer, receiver.headers = 302, {"Location": "http://127.0.0.1:1/"}
    refused = person_services.send(url, message)
    assert not refused.succeeded and len(receiver.received) == 2
    monkeypatch.setitem(settings.TENFOUR, "WEBHOOK_ALLOW", [])
    for each in (url, url.replace("127.0.0.1", "localhost")):
        refused = person_services.send(each, message)
        assert "not a public address" in refused.error and refused.code is None
        with pytest.raises(Invalid, match="not a public address"):
            person_services.read_service(each)
    assert len(receiver.received) == 2
