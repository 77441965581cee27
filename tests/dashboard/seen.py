"""Read a page as a test or a person sees it."""

import re
from collections.abc import Callable
from html import unescape
from typing import Any

from django.http import HttpResponse
from django.test import Client

Part = Callable[..., HttpResponse]


def html(response: HttpResponse, status: int = 200) -> str:
    """Return the page on one line, without entities."""
    assert response.status_code == status
    return re.sub(r"\s+", " ", unescape(response.content.decode()))


def words(response: HttpResponse) -> str:
    """Return the text that a person reads."""
    text = re.sub(r"<[^>]+>", " ", re.sub("</time>|</?mark>", "", html(response)))
    return re.sub(r"\s+", " ", text)


def rows(response: HttpResponse, of: str) -> list[str]:
    """Return the ids of the elements whose ids begin with `of`, in order."""
    return re.findall(rf'id="{of}-([0-9a-f-]{{36}})"', html(response))


def key(response: HttpResponse) -> str:
    """Return the live key of a page."""
    found = re.search(r'data-since="([^"]+)"', response.content.decode())
    assert found
    return unescape(found[1])


def said(client: Client, path: str, data: dict[str, Any]) -> str:
    """Post a form and return the messages of the next page."""
    response = client.post(path, data, follow=True)
    assert response.status_code == 200
    return " ".join(str(message) for message in response.context["messages"])
