"""The admin for staff with a role in one project: its rows, and the actions of the role."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client

from ledger.admin_pages.lists import ReadOnly
from ledger.authorization.roles import Role
from ledger.models import Agent, Membership, Project
from tests.factories import make_agent, make_project


def paused(agent: Agent) -> bool:
    return Agent.objects.get(pk=agent.pk).paused


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_staff_see_and_change_only_rows_of_their_projects(project: Project, role: Role) -> None:
    mine, other = make_agent("mine"), make_agent("zebra", project=make_project("elsewhere"))
    user = User.objects.create_user("eve", is_staff=True)
    Membership.objects.create(user=user, project=project, role=role, added_by="mara")
    client = Client()
    client.force_login(user)
    index = client.get("/admin/").content.decode()
    assert "Agents" in index and "Projects" not in index and "Users" not in index
    for model, shown in admin.site._registry.items():
        if not isinstance(shown, ReadOnly):
            continue
        path = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        page = client.get(path)
        assert page.status_code in (200, 403), path
        assert b"zebra" not in page.content and b"elsewhere" not in page.content, path
        assert client.get(f"{path}add/").status_code == 403, path
    assert client.get(f"/admin/ledger/agent/{mine.pk}/change/").status_code == 200
    assert client.get(f"/admin/ledger/agent/{other.pk}/change/").status_code == 302
    chosen = {"action": "pause", "_selected_action": [str(mine.pk), str(other.pk)]}
    client.post("/admin/ledger/agent/", chosen)
    assert (paused(mine), paused(other)) == (role == Role.OPERATOR, False)
