"""The People page, invitations from link to member, tokens, and a person's own page."""

import re
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpResponse
from django.test import Client

from dashboard.people import queries
from dashboard.tokens import queries as token_queries
from ledger import tokens
from ledger.authorization.roles import Role
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Invitation, Membership, Project, SignIn, Token
from tests.dashboard.seen import html
from tests.elsewhere import blocked
from tests.factories import make_agent, make_project, make_token
from tests.waiting import PATIENCE_S

PASSWORD = "correct-horse-battery"
ACCOUNT = {"username": "lena", "password1": PASSWORD, "password2": PASSWORD}


def member(name: str, role: Role, project: Project) -> Client:
    user = User.objects.create_user(name, password=PASSWORD)
    Membership.objects.create(user=user, project=project, role=role, added_by="mara")
    return enter(name)


def enter(name: str) -> Client:
    client = Client(headers={"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"})
    response = client.post("/sign-in/", {"username": name, "password": PASSWORD})
    assert response.status_code == 302, response.content
    return client


def invite(client: Client, **data: str) -> str:
    """Invite someone and return the path of the link, which is shown once."""
    response = client.post(
        "/settings/people/invitations/", {"role": "operator", "days": "1"} | data
    )
    found = re.search(r"/join/[\w-]+/", html(response))
    assert found
    assert "/join/" not in html(client.get("/settings/people/"))
    return found[0]


def kinds() -> list[str]:
    rows = Event.objects.filter(subject_type__in=["member", "invitation"]).order_by("id")
    return list(rows.values_list("kind", flat=True))


def test_a_link_makes_one_member_who_then_signs_in(project: Project) -> None:
    """The secret is not stored, a look uses nothing up, and the second person is refused."""
    boss = member("priya", Role.ADMIN, project)
    path = invite(boss, email="lena@example.com")
    secret = path.split("/")[2]
    assert secret.encode() not in bytes(Invitation.objects.get().digest)
    late = Client()
    assert "Join <bdi>default</bdi>" in html(late.get(path))
    visitor = Client()
    assert visitor.post(path, ACCOUNT | {"password2": "other"}).status_code == 422
    assert visitor.post(path, ACCOUNT)["Location"] == "/?project=default"
    assert visitor.get("/").status_code == 200
    assert visitor.get("/settings/people/").status_code == 200
    assert late.post(path, ACCOUNT | {"username": "eve"}).status_code == 404
    assert not User.objects.filter(username="eve").exists()
    row = Membership.objects.get(user__username="lena")
    assert (row.role, row.user.email, row.user.is_staff) == ("operator", "lena@example.com", False)
    assert enter("lena").get("/tasks/").status_code == 200
    assert kinds() == ["invitation.created", "invitation.accepted", "member.added"]
    assert set(Event.objects.values_list("actor_name", flat=True)) == {"priya", "lena"}
    activity = html(boss.get("/activity/")).lower()
    assert "joined as an operator" in activity and "invited an operator" in activity


def test_links_expire_are_revoked_and_are_for_their_address(
    project: Project, browser: Client, now: datetime
) -> None:
    boss = member("priya", Role.ADMIN, project)
    path = invite(boss)
    Invitation.objects.update(expires_at=now - timedelta(seconds=1))
    assert Client().get(path).status_code == Client().post(path, ACCOUNT).status_code == 404
    path = invite(boss, email="lena@example.com")
    assert browser.post(path).status_code == 403  # Mara has no such address
    last = Invitation.objects.order_by("-id")[0]
    assert boss.post(f"/settings/people/invitations/{last.pk}/revoke/").status_code == 302
    assert Client().get(path).status_code == 404
    path = invite(boss, role="viewer")
    other = User.objects.create_user("tom", password=PASSWORD)
    signed_in = Client()
    signed_in.force_login(other)
    assert "You are signed in as" in html(signed_in.get(path))
    assert signed_in.post(path).status_code == 302
    assert Membership.objects.get(user=other).role == "viewer"
    assert (
        boss.post("/settings/people/invitations/", {"role": "viewer", "email": "no"}).status_code
        == 422
    )


def test_an_admin_changes_roles_and_removes_but_not_the_last_admin(project: Project) -> None:
    boss = member("priya", Role.ADMIN, project)
    other = member("tom", Role.VIEWER, project)
    rows = {row.user.username: row for row in Membership.objects.select_related("user")}
    own, toms = (f"/settings/people/members/{rows[name].pk}" for name in ("priya", "tom"))
    assert other.post("/instructions/new/").status_code == 403
    boss.post(f"{toms}/role/", {"role": "operator"})
    assert other.post("/instructions/new/").status_code == 422
    assert "Undo" in html(boss.get("/settings/people/"))
    boss.post(f"{own}/viewer/")
    boss.post(f"{own}/remove/", {"confirmed": "yes"})
    assert Membership.objects.get(user__username="priya").role == "admin"
    assert "last admin" in html(boss.get("/settings/people/"))
    asked = boss.post(f"{toms}/remove/")["Location"]
    assert "no longer sees" in html(boss.get(asked))
    boss.post(f"{toms}/remove/", {"confirmed": "yes"})
    assert other.get("/tasks/").status_code == 302
    assert kinds() == ["member.changed", "member.removed"]


def test_each_wrong_field_of_an_invitation_has_its_error(project: Project) -> None:
    boss = member("priya", Role.ADMIN, project)
    form = {"role": "king", "email": "nobody", "days": "1"}
    page = html(boss.post("/settings/people/invitations/", form), 422)
    assert "Choose a role and how long the link works." in page
    assert "Enter an email address, or leave the field empty." in page
    for id in re.findall(r'aria-invalid="true" aria-describedby="([^"]+)"', page):
        assert f'id="{id}" role="alert"' in page
    assert page.count('aria-invalid="true"') == 2


def test_a_viewer_reads_whom_to_ask(project: Project) -> None:
    member("priya", Role.ADMIN, project)
    member("omar", Role.OPERATOR, project)
    viewer = member("vera", Role.VIEWER, project)
    page = html(viewer.get("/settings/people/"))
    assert "Ask <bdi>priya</bdi>. </span>" in page


def test_lists_and_search_show_only_own_projects(project: Project) -> None:
    """People of one project see nothing of another, by any name or id."""
    elsewhere, agent = make_project("elsewhere"), make_agent("zebra")
    foreign = member("eve", Role.ADMIN, elsewhere)
    make_token("agent", agent=agent)
    for path in ("/", "/agents/", "/tasks/", "/settings/tokens/", "/settings/people/", "/search/"):
        text = foreign.get(path, {"q": "zebr"} if path == "/search/" else {}).content.decode()
        assert "zebra" not in text and "<bdi>default<" not in text, path
    answer = foreign.get("/search/", {"q": str(agent.pk)}, follow=True)
    assert "zebra" not in answer.content.decode()
    both = member("ann", Role.VIEWER, project)
    Membership.objects.create(
        user=User.objects.get(username="ann"), project=elsewhere, role="admin", added_by="mara"
    )
    assert "zebra" in html(both.get("/agents/?project=default"))
    assert "zebra" not in html(both.get("/agents/?project=elsewhere"))
    assert "All projects" not in html(both.get("/agents/"))
    assert both.get(f"/agents/{agent.pk}/").status_code == 200
    assert both.post(f"/agents/{agent.pk}/pause/?project=elsewhere").status_code == 403
    assert (
        both.post("/settings/tokens/new/?project=elsewhere", {"project": "default"}).status_code
        == 403
    )


def test_signed_in_browsers_are_listed_and_ended(project: Project) -> None:
    boss = member("priya", Role.ADMIN, project)
    one, two = member("tom", Role.VIEWER, project), enter("tom")
    page = html(one.get("/settings/people/"))
    assert page.count("Firefox on Linux") >= 2 and "This one" in page
    assert "priya" not in page.partition('id="browsers"')[2]
    priyas = SignIn.objects.get(user__username="priya")
    assert one.post(f"/settings/people/browsers/{priyas.pk}/end/").status_code == 404
    assert one.post("/settings/people/browsers/end-others/").status_code == 302
    assert (one.get("/").status_code, two.get("/").status_code) == (200, 302)
    last = SignIn.objects.get(user__username="tom")
    boss.post(f"/settings/people/browsers/{last.pk}/end/")
    assert one.get("/").status_code == 302
    assert kinds()[-1] == "member.signed_out"
    boss.post("/sign-out/")
    assert not SignIn.objects.exists() and not Session.objects.exists()


def test_a_lost_or_expired_link_is_replaced_once(project: Project, now: datetime) -> None:
    """The new link is for the same role and address; the old one stops working at once."""
    boss = member("priya", Role.ADMIN, project)
    for is_over in (False, True):
        old = invite(boss, role="viewer", email="lena@example.com")
        row = Invitation.objects.order_by("-id")[0]
        if is_over:
            Invitation.objects.filter(pk=row.pk).update(
                created_at=now - timedelta(days=2), expires_at=now - timedelta(days=1)
            )
        button = "Invite again" if is_over else "New link"
        assert f"{button} <span" in html(boss.get("/settings/people/"))
        path = f"/settings/people/invitations/{row.pk}/again/"
        page = html(boss.post(path))
        new = re.search(r"/join/[\w-]+/", page)
        assert new and new[0] != old and "The old link no longer works." in page
        assert (Client().get(old).status_code, Client().get(new[0]).status_code) == (404, 200)
        again = Invitation.objects.order_by("-id")[0]
        assert (again.role, again.email) == ("viewer", "lena@example.com")
        assert again.expires_at - again.created_at == timedelta(days=1)
        assert boss.post(path).status_code == 302  # replaced before
        assert kinds()[-3:] == ["invitation.created", "invitation.revoked", "invitation.created"]
        assert Invitation.objects.pending().filter(pk=again.pk).update(revoked_at=now) == 1


def test_an_admin_ends_all_browsers_of_one_member(project: Project) -> None:
    """The person is signed out everywhere at once, and the admin and the others stay."""
    boss, hers = member("priya", Role.ADMIN, project), enter("priya")
    one, two = member("tom", Role.VIEWER, project), enter("tom")
    eve = member("eve", Role.ADMIN, make_project("elsewhere"))
    rows = {row.user.username: row for row in Membership.objects.select_related("user")}
    path, asks = "/settings/people/browsers/end-person/", "/settings/people/?end=1"
    assert "End all of one person…" in html(boss.get("/settings/people/"))
    page = html(boss.get(asks))
    assert "tom · 2 browsers" in page and "priya ·" not in page and "eve ·" not in page
    assert 'id="end"' not in html(one.get(asks))
    assert one.post(path, {"member": rows["priya"].pk}).status_code == 403
    assert boss.post(path, {"member": rows["eve"].pk}).status_code == 404
    assert boss.post(path, {"member": "nonsense"}).status_code == 404
    assert boss.post(path, {"member": rows["tom"].pk}).status_code == 302
    assert "tom is signed out of 2 browsers." in html(boss.get("/settings/people/"))
    assert [each.get("/").status_code for each in (one, two, boss, eve)] == [302, 302, 200, 200]
    assert kinds() == ["member.signed_out"]
    log = html(boss.get("/settings/audit/"))
    assert "ended 2 signed-in browsers of tom" in log
    boss.post(path, {"member": rows["tom"].pk})
    assert kinds() == ["member.signed_out"]  # there was none to end
    boss.post(path, {"member": rows["priya"].pk})
    assert (boss.get("/").status_code, hers.get("/").status_code) == (200, 302)


def test_tokens_are_created_rotated_and_revoked_by_admins(agent: Agent, project: Project) -> None:
    boss, operator = member("priya", Role.ADMIN, project), member("tom", Role.OPERATOR, project)
    assert operator.post("/settings/tokens/new/", {"kind": "reader"}).status_code == 403
    page = html(boss.post("/settings/tokens/new/", {"kind": "agent", "agent": "coder"}))
    found = re.search(r"tenfour_agt_\w+", page)
    assert found and Client().get("/v1/me", headers=bearer(found[0])).status_code == 200
    assert found[0] not in html(boss.get("/settings/tokens/"))
    row = Token.objects.get()
    path = f"/settings/tokens/{row.pk}"
    assert "Rotate" in html(boss.get(boss.post(f"{path}/rotate/")["Location"]))
    page = html(boss.post(f"{path}/rotate/", {"confirmed": "yes", "overlap": "0"}))
    new = re.search(r"tenfour_agt_\w+", page)
    assert new and new[0] != found[0]
    assert Client().get("/v1/me", headers=bearer(found[0])).status_code == 401
    assert Client().get("/v1/me", headers=bearer(new[0])).status_code == 200
    latest = Token.objects.order_by("-id")[0]
    assert "Not used yet" in page and f'hx-get="{path[:-36]}{latest.pk}/use/"' in page
    assert "First used" in html(boss.get(f"/settings/tokens/{latest.pk}/use/"))
    assert operator.get(f"/settings/tokens/{latest.pk}/use/").status_code == 403
    boss.post(f"/settings/tokens/{latest.pk}/revoke/", {"confirmed": "yes"})
    assert Client().get("/v1/me", headers=bearer(new[0])).status_code == 401
    page = html(operator.get("/settings/tokens/"))
    assert "revoked" in page and "Rotate…" not in page and 'id="read-only"' in page


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_long_lists_of_tokens_have_pages_and_a_search(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token on no page can be rotated, too, and the answer says how long the old one works."""
    monkeypatch.setattr(token_queries, "LISTED", 2)
    boss = member("priya", Role.ADMIN, project)
    for number in range(5):
        make_token("reader", name=f"key-{number}")
    first = Token.objects.get(name="key-0")
    tokens.revoke(Token.objects.get(name="key-4"), stamp=Stamp(SYSTEM))

    def names(query: str = "") -> list[str]:
        page = html(boss.get(f"/settings/tokens/?{query}"))
        return re.findall(r'<span class="trunc small dim"><bdi>([^<]+)</bdi>', page)

    assert [names(f"page={number}") for number in (1, 2, 3, 9)] == [
        ["key-3", "key-2"],
        ["key-1", "key-0"],
        ["key-4"],
        [],
    ]
    assert 'href="?page=2" rel="next"' in html(boss.get("/settings/tokens/"))
    assert names("find=KEY-0") == ["key-0"] and names(f"find={first.prefix}") == ["key-0"]
    assert "No token matches." in html(boss.get("/settings/tokens/?find=nothing"))
    assert "Rotate and show the secret" in html(boss.get(f"/settings/tokens/?rotate={first.pk}"))
    path = f"/settings/tokens/{first.pk}/rotate/"
    rotated = html(boss.post(path, {"confirmed": "yes", "overlap": "1"}))
    assert f"The old one, <code>{first.prefix}…</code>, works until" in rotated
    again = Token.objects.filter(name="key-0").latest("id")
    path = f"/settings/tokens/{again.pk}/rotate/"
    rotated = html(boss.post(path, {"confirmed": "yes", "overlap": "0"}))
    assert f"The old one, <code>{again.prefix}…</code>, no longer works" in rotated


def test_long_lists_of_members_and_browsers_have_pages(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "LISTED", 2)
    clients = {
        name: member(name, role, project)
        for name, role in (
            ("anna", Role.VIEWER),
            ("omar", Role.VIEWER),
            ("priya", Role.ADMIN),
            ("tom", Role.OPERATOR),
        )
    }
    boss, path = clients["priya"], "/settings/people/"

    def names(query: str) -> list[str]:
        page = html(boss.get(f"{path}?{query}")).partition('id="browsers"')[0]
        return re.findall(r'<span class="who__n"> <bdi class="trunc">([^<]+)</bdi>', page)

    assert [names(f"page={number}") for number in (1, 2)] == [["priya", "tom"], ["anna", "omar"]]
    page = html(boss.get(path))
    assert 'href="?page=2" rel="next"' in page and 'href="?browsers=2" rel="next"' in page
    omar = Membership.objects.get(user__username="omar")
    assert "Remove" in html(boss.get(boss.post(f"{path}members/{omar.pk}/remove/")["Location"]))
    whole = html(boss.get(f"{path}?end=1"))
    assert all(f"{name} · 1 browser" in whole for name in ("anna", "omar", "tom"))


@pytest.mark.parametrize("zone", ["Asia/Kathmandu"])
def test_theme_time_zone_and_password_are_the_persons_own(project: Project, zone: str) -> None:
    one = member("tom", Role.VIEWER, project)
    two = enter("tom")
    one.post("/settings/profile/save/", {"theme": "dark", "time_zone": zone})
    page = html(two.get("/settings/people/"))
    assert 'data-theme="dark"' in page and f'data-time-zone="{zone}"' in page and "+0545" in page
    one.post("/settings/profile/save/", {"theme": "light"})  # as the button of the page does
    assert 'data-theme="light"' in html(two.get("/")) and zone in html(two.get("/"))
    fields = {
        "old_password": "wrong",
        "new_password1": "new-horse-7",
        "new_password2": "new-horse-7",
    }
    assert one.post("/settings/profile/password/", fields).status_code == 422
    response: HttpResponse = one.post(
        "/settings/profile/password/", fields | {"old_password": PASSWORD}
    )
    assert response.status_code == 302
    assert (one.get("/").status_code, two.get("/").status_code) == (200, 302)
    assert SignIn.objects.filter(session_key=one.session.session_key).exists()
    assert kinds() == ["member.password_changed"]
    limited = [one.post("/settings/profile/password/", fields).status_code for _ in range(30)]
    assert limited[0] == 422 and limited[-1] == 429


@pytest.mark.django_db(transaction=True)
def test_of_two_people_with_one_username_the_later_chooses_another(
    project: Project, elsewhere: Callable[..., Future[Any]]
) -> None:
    """The form finds the username free, and the database does not."""
    path = invite(member("priya", Role.ADMIN, project))
    with transaction.atomic():
        User.objects.create_user("lena")
        joining = elsewhere(lambda: Client().post(path, ACCOUNT))
        with blocked(joining):
            pass
    refused = joining.result(PATIENCE_S)
    assert refused.status_code == 422 and "already exists" in refused.content.decode()
    assert not Membership.objects.filter(user__username="lena").exists()
    assert Client().post(path, ACCOUNT | {"username": "lena2"}).status_code == 302
