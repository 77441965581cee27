"""The admin as a signed-in user of the staff works with it."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client


@pytest.fixture
def mara() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("mara"))
    return client


def path(model: Any, rest: str = "") -> str:
    return f"/admin/{model._meta.app_label}/{model._meta.model_name}/{rest}"


def sure(client: Client, model: Any, action: str, *rows: Any, **more: str) -> str:
    """Run an action that asks first, as its page of confirmation does."""
    return act(client, model, action, *rows, confirmed="yes", **more)


def asked(client: Client, model: Any, action: str, *rows: Any, **more: str) -> list[str]:
    """Return the effects that an action shows before it runs."""
    data = {"action": action, "_selected_action": [str(row.pk) for row in rows]} | more
    response = client.post(path(model), data)
    assert response.status_code == 200 and "This can’t be undone." in response.content.decode()
    found: list[str] = response.context["effects"]
    return found


def act(client: Client, model: Any, action: str, *rows: Any, **more: str) -> str:
    data = {"action": action, "_selected_action": [str(row.pk) for row in rows]} | more
    response = client.post(path(model), data, follow=True)
    assert response.status_code == 200
    return " ".join(str(message) for message in response.context["messages"])
