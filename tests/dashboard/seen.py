"""What a test reads off a page."""

import re
from collections.abc import Callable
from html import unescape
from typing import Any

from django.http import HttpResponse
from django.test import Client

Part = Callable[..., HttpResponse]


def html(response: HttpResponse, status: int = 200) -> str:
    """The page on one line, without entities."""
    assert response.status_code == status
    return re.sub(r"\s+", " ", unescape(response.content.decode()))


def words(response: HttpResponse) -> str:
    """What a person reads."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html(response)))


def rows(response: HttpResponse, of: str) -> list[str]:
    """The ids of the elements whose ids begin with `of`, in their order."""
    return re.findall(rf'id="{of}-([0-9a-f-]{{36}})"', html(response))


def key(response: HttpResponse) -> str:
    """What a poll says that it has."""
    found = re.search(r'data-since="([^"]+)"', response.content.decode())
    assert found
    return unescape(found[1])


def said(client: Client, path: str, data: dict[str, Any]) -> str:
    """What the next page says about what a form did."""
    response = client.post(path, data, follow=True)
    assert response.status_code == 200
    return " ".join(str(message) for message in response.context["messages"])
