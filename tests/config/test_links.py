"""Links name the server's own address, whatever Host a request claims."""

import json
import re
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver

from config.urls import urlpatterns
from tests.conftest import Api
from tests.factories import make_token
from tests.retries.api.calls import claim, enqueue
from tests.serving import Tenfour
from tests.waiting import PATIENCE_S

FORGED = "evil.example"

pytestmark = pytest.mark.django_db


def list_paths(patterns: Any, prefix: str = "/") -> Iterator[str]:
    for url in patterns:
        path = prefix + str(url.pattern).lstrip("^").removesuffix("$").replace("\\Z", "")
        if isinstance(url, URLResolver):
            yield from list_paths(url.url_patterns, path)
        elif isinstance(url, URLPattern):
            yield path


def test_no_response_repeats_a_forged_host(coder: Api, operator: Api) -> None:
    """Every address, with an open escalation, by token and by session."""
    enqueue(operator, max_attempts=1, on_exhausted="escalate")
    attempt = claim(coder)["data"][0]["attempt"]["id"]
    told = coder("POST", f"/attempts/{attempt}/result", {"status": "failure"}, Host=FORGED)
    escalation = told.body["escalation"]["id"]
    assert FORGED not in told.content.decode()
    person = Client(headers={"host": FORGED})
    person.force_login(User.objects.create_superuser("mara"))
    authorization = f"Bearer {make_token('operator')}"
    clients = (
        person,
        Client(headers={"host": FORGED}),
        Client(headers={"host": FORGED, "authorization": authorization}),
    )
    seen = 0
    for pattern in sorted(set(list_paths(urlpatterns))):
        ours = escalation if "escalation" in pattern else str(uuid.uuid4())
        path = re.sub(r"<[^>]*>|\(\?P.*\)", ours, pattern)
        for client in clients:
            answer = client.get(path)
            content = b"".join(answer) if answer.streaming else answer.content
            assert FORGED not in str(answer.headers) + content.decode(errors="replace"), path
            seen += 1
    assert seen > 200


@pytest.mark.django_db(transaction=True)
def test_links_name_the_address_that_the_server_is_bound_to(tenfour_server: Tenfour) -> None:
    request = urllib.request.Request(f"{tenfour_server.url}/v1/me", headers={"Host": FORGED})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=PATIENCE_S)
    assert json.load(refused.value)["type"] == f"{tenfour_server.url}/problems/token_missing"


@pytest.mark.parametrize("target", [f"http://{FORGED}/", f"//{FORGED}/", "https:///x"])
def test_a_forged_host_does_not_make_its_pages_ours(target: str) -> None:
    User.objects.create_user("mara", password="tenfour-tenfour-tenfour", is_staff=True)
    form = {"username": "mara", "password": "tenfour-tenfour-tenfour", "next": target}
    answer = Client(headers={"host": FORGED}).post("/sign-in/", form)
    assert answer["Location"] == "/"
