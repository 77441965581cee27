"""The People page: who may do what in a project, invitations, and signed-in browsers."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse

from dashboard.frame.access import may_open
from dashboard.frame.rendering import (
    SETTINGS,
    HtmxRequest,
    Visit,
    begin_visit,
    compose_page,
    respond,
)
from dashboard.lists.pagination import read_numbered
from dashboard.lists.query_box import as_id
from dashboard.people import queries
from dashboard.people.queries import ListedBrowser, ListedPerson
from ledger.authorization.roles import Role
from ledger.models import Invitation, Membership, Project
from ledger.people.invitations import DAYS

ROLES_TABLE = (
    (Role.VIEWER, True, False, False),
    (Role.OPERATOR, True, True, False),
    (Role.ADMIN, True, True, True),
)


@dataclass(frozen=True, slots=True)
class InvitationForm:
    """The form of an invitation as it was filled in."""

    email: str = ""
    role: str = Role.OPERATOR
    days: int = DAYS[-1]
    error: str = ""
    email_error: str = ""


def index(request: HtmxRequest) -> HttpResponse:
    return show(begin_visit(request, current="settings"))


def show(
    visit: Visit,
    *,
    link: str = "",
    invited: Invitation | None = None,
    is_again: bool = False,
    form: InvitationForm | None = None,
    status_code: int = 200,
) -> HttpResponse:
    project, request = visit.scope.only, visit.request
    you: Any = request.user.pk
    may_manage = may_open(request.user, "member_act")
    session_key = request.session.session_key
    rows = queries.order_members(project) if project else Membership.objects.none()
    members = read_numbered(rows, request.GET, "page", size=queries.LISTED)
    people = (
        queries.list_people(project, members.rows, with_all=members.number == 1, you=you)
        if project
        else []
    )
    signed_in = queries.select_browsers(
        you=you, project=project if may_manage else None, now=visit.now
    )
    browsers = read_numbered(signed_in, request.GET, "browsers", size=queries.LISTED)
    page = compose_page(
        title="People",
        crumbs=(SETTINGS,),
        status_code=status_code,
        project=project,
        projects=visit.scope.projects,
        people=people,
        members=members,
        invitations=(
            queries.list_invitations(project, now=visit.now) if project and may_manage else []
        ),
        browsers=[ListedBrowser(row, row.session_key == session_key) for row in browsers.rows],
        browser_pages=browsers,
        # the person's own other browsers
        others=queries.count_others(you=you, session_key=session_key, now=visit.now),
        may_manage=may_manage,
        # some admins, for people who can't act
        admins=queries.name_admins(project) if project and not may_manage else [],
        # the member to remove
        asked=find_asked(project, request.GET.get("remove", ""), you) if may_manage else None,
        # whether the page asks whose browsers to end
        asks_whom=may_manage and "end" in request.GET,
        # other members with their numbers of browsers
        signed_in=(
            queries.list_signed_in(project, you=you, now=visit.now)
            if project and may_manage
            else []
        ),
        link=link,  # a new invitation's link, shown once
        invited=invited,
        is_again=is_again,  # the link replaces an older one
        form=form or InvitationForm(),
        roles=Role,
        roles_table=ROLES_TABLE,
        days=DAYS,
    )
    return respond(visit, "people/index.html", "people/_people.html", page)


def find_asked(project: Project | None, text: str, you: int) -> ListedPerson | None:
    """Return the member that the address asks to remove, or None."""
    # The last admin can't be removed.
    member_id = as_id(text)
    if project is None or member_id is None:
        return None
    rows = queries.order_members(project).filter(pk=member_id)
    found = queries.list_people(project, rows, with_all=False, you=you)
    return next((each for each in found if not each.is_last_admin), None)
