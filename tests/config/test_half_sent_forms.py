"""Strangers who send half of a form keep no one from signing in or from answering (SEC-3)."""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client as Browser
from django.utils import timezone

from config.local.listeners import open_listener
from ledger.states import TaskState
from retries.models import Escalation
from tests.config.test_stalled_clients import post, read_available
from tests.config.web_processes import Served, ending
from tests.dashboard.worked import make_task
from tests.factories import make_agent
from tests.nginx import run_nginx
from tests.serving import collect_static_files, serve
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "correct horse battery"
FORM_TOKEN = "a" * 32
CSRF = {settings.CSRF_COOKIE_NAME: FORM_TOKEN}
ELSEWHERE = "127.0.1.1"
UNBUFFERED = "proxy_request_buffering off; proxy_http_version 1.1;"


@contextmanager
def run_server(folder: Path, front: str) -> Iterator[Served]:
    """Run Tenfour with as many workers as an installation has, maybe behind nginx."""
    collect_static_files()
    proxies = "0" if front == "direct" else "1"
    with ExitStack() as stack:
        listener = stack.enter_context(open_listener("127.0.0.1", 0))
        started = serve(listener.fileno(), workers=2, TENFOUR_TRUSTED_PROXIES=proxies)
        process = stack.enter_context(ending(started))
        port = listener.getsockname()[1]
        if front != "direct":
            option = UNBUFFERED if front == "unbuffered" else ""
            port = stack.enter_context(run_nginx(folder, port, option=option))
        served = Served(process, ("127.0.0.1", port))
        wait_until(served.is_healthy)
        served.started_workers()
        yield served


def half_sent_form(served: Served, address: str) -> socket.socket:
    source = (address, 0)
    connection = socket.create_connection(served.address, PATIENCE_S, source_address=source)
    form = "Content-Type: application/x-www-form-urlencoded"
    connection.sendall(post("/sign-in/", form, length=500))
    return connection


def sign_in(served: Served) -> int:
    """Return the status of a sign-in from an address of its own."""
    transport = httpx2.HTTPTransport(local_address=ELSEWHERE)
    with httpx2.Client(transport=transport, cookies=CSRF, timeout=PATIENCE_S) as client:
        form = {"username": "mara", "password": PASSWORD, "csrfmiddlewaretoken": FORM_TOKEN}
        return client.post("http://{}:{}/sign-in/".format(*served.address), data=form).status_code


def answer(served: Served, escalation: Escalation, cookies: dict[str, str]) -> int:
    """Return the status of a person's answer, which closes the escalation."""
    headers = {"X-CSRFToken": FORM_TOKEN}
    with httpx2.Client(cookies=cookies | CSRF, headers=headers, timeout=PATIENCE_S) as client:
        path = f"/escalations/{escalation.pk}/answer/"
        form = {"action": "skip", "version": str(escalation.version), "confirmed": "yes"}
        return client.post("http://{}:{}{}".format(*served.address, path), data=form).status_code


@pytest.mark.parametrize("spread", ["one address", "many addresses"])
@pytest.mark.parametrize(
    ("front", "count"),
    [("direct", 20), ("direct", 24), ("direct", 100), ("buffered", 100), ("unbuffered", 100)],
)
def test_half_sent_sign_ins_keep_no_one_out(
    tmp_path: Path, front: str, count: int, spread: str
) -> None:
    mara = User.objects.create_superuser("mara", password=PASSWORD)
    browser = Browser()
    browser.force_login(mara)
    cookies = {name: morsel.value for name, morsel in browser.cookies.items()}
    agent = make_agent()
    for number in range(4):
        make_task(TaskState.ESCALATED, f"Task {number}", agent=agent, now=timezone.now())
    with run_server(tmp_path, front) as served, ExitStack() as stack:
        for number in range(count):
            address = "127.0.0.1" if spread == "one address" else f"127.0.0.{number + 2}"
            stack.enter_context(half_sent_form(served, address))
        for escalation in Escalation.objects.all():
            assert answer(served, escalation, cookies) == 302
            assert sign_in(served) == 302
    assert Escalation.objects.filter(action="skip").count() == 4


def test_a_browser_whose_form_is_not_awaited_sees_a_page(tmp_path: Path) -> None:
    """Forms beyond an address's share are refused at once, and the others after their deadline."""
    with run_server(tmp_path, "direct") as served, ExitStack() as stack:
        held = [stack.enter_context(half_sent_form(served, "127.0.0.1")) for _ in range(40)]
        received = dict.fromkeys(held, b"")

        def list_pages() -> list[bytes]:
            for each in held:
                received[each] += read_available(each)
            return [each for each in received.values() if b"</html>" in each]

        wait_until(lambda: len(list_pages()) == len(held))
        statuses = Counter(page.split()[1] for page in list_pages())
        assert statuses.keys() == {b"503", b"408"}
        assert statuses[b"408"] <= 2 * 4  # of two workers
        refused = next(page for page in list_pages() if b" 503 " in page)
        assert b"retry-after: 1\r\n" in refused.lower()
        assert b"Too many requests wait" in refused and b"Nothing was changed" in refused
