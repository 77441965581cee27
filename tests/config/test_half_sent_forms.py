"""Strangers who send half of a form keep no one from signing in or from answering (SEC-3)."""

import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path

import httpx2
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client as Browser
from django.utils import timezone

from ledger.states import TaskState
from retries.models import Escalation
from tests.config.test_stalled_clients import post, read_available
from tests.config.web_processes import Served, run_server
from tests.dashboard.worked import make_task
from tests.factories import make_agent
from tests.nginx import run_nginx
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "correct horse battery"
FORM_TOKEN = "a" * 32
CSRF = {settings.CSRF_COOKIE_NAME: FORM_TOKEN}
ELSEWHERE = "127.0.1.1"
ADDRESSES: dict[str, Callable[[int], list[str]]] = {
    "one": lambda count: ["127.0.0.1"] * count,
    "many": lambda count: [f"127.0.0.{number + 2}" for number in range(count)],
}
TIMES = 2  # of answers and sign-ins beside each crowd
UNBUFFERED = "proxy_request_buffering off; proxy_http_version 1.1;"


@contextmanager
def run_behind(front: str, folder: Path) -> Iterator[Served]:
    """Run Tenfour, maybe behind nginx."""
    proxies = "0" if front == "direct" else "1"
    with run_server(TENFOUR_TRUSTED_PROXIES=proxies) as served:
        served.started_workers()
        if front == "direct":
            yield served
            return
        option = UNBUFFERED if front == "unbuffered" else ""
        with run_nginx(folder, served.address[1], option=option) as port:
            behind = Served(served.process, ("127.0.0.1", port))
            wait_until(behind.is_healthy)
            yield behind


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


@pytest.mark.parametrize(
    ("front", "counts"), [("direct", (20, 24, 100)), ("buffered", (100,)), ("unbuffered", (100,))]
)
def test_half_sent_sign_ins_keep_no_one_out(
    tmp_path: Path, front: str, counts: tuple[int, ...]
) -> None:
    """From one address or from many."""
    mara = User.objects.create_superuser("mara", password=PASSWORD)
    browser = Browser()
    browser.force_login(mara)
    cookies = {name: morsel.value for name, morsel in browser.cookies.items()}
    with run_behind(front, tmp_path) as served:
        for count, (spread, list_addresses) in product(counts, ADDRESSES.items()):
            agent = make_agent(f"{spread}-{count}")
            for _ in range(TIMES):
                make_task(TaskState.ESCALATED, agent=agent, now=timezone.now())
            with ExitStack() as stack:
                for address in list_addresses(count):
                    stack.enter_context(half_sent_form(served, address))
                for escalation in Escalation.objects.open():
                    assert answer(served, escalation, cookies) == 302, (count, spread)
                    assert sign_in(served) == 302, (count, spread)
            assert not Escalation.objects.open().exists()
    assert Escalation.objects.filter(action="skip").count() == TIMES * len(ADDRESSES) * len(counts)


def test_a_browser_whose_form_is_not_awaited_sees_a_page(tmp_path: Path) -> None:
    """Forms beyond an address's share are refused at once, and the others after their deadline."""
    with run_behind("direct", tmp_path) as served, ExitStack() as stack:
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
