"""Invite, change and remove members, and end signed-in browsers."""

from dataclasses import replace
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.access import may_open, takes_form
from dashboard.frame.found_rows import require_row
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest, back_to, begin_visit
from dashboard.frame.toasts import add_message
from dashboard.lists.query_box import as_id
from dashboard.people import views
from dashboard.people.views import InvitationForm
from dashboard.wording.formatting import counted
from ledger import journal
from ledger.authorization.roles import Role
from ledger.errors import Refusal
from ledger.journal import Kind, stamp_of
from ledger.models import Invitation, Membership, SignIn
from ledger.people import browsers, invitations, members

EMAIL_LENGTH = 254
EMAIL = forms.EmailField(required=False, max_length=EMAIL_LENGTH)


def page_url(request: HtmxRequest) -> str:
    return reverse("dashboard:people") + read_scope(request).query


@takes_form("people")
def invite(request: HtmxRequest) -> HttpResponse:
    visit, form = begin_visit(request, current="settings"), read_form(request.POST)
    project = visit.scope.only
    if project is None:
        messages.warning(request, "Choose a project first. Nothing was changed.")
        return redirect(page_url(request))
    if form.error or form.email_error:
        return views.show(visit, form=form, status_code=422)
    invitation, secret = invitations.invite(
        project, Role(form.role), email=form.email, days=form.days, stamp=stamp_of(request)
    )
    return views.show(visit, link=link_of(secret), invited=invitation)


def read_form(posted: QueryDict) -> InvitationForm:
    email, role = posted.get("email", "").strip(), posted.get("role", "")
    days = posted.get("days") or str(invitations.DAYS[-1])
    known = {str(each): each for each in invitations.DAYS}
    form = InvitationForm(email[:EMAIL_LENGTH], role, known.get(days, invitations.DAYS[-1]))
    if role not in Role.values or days not in known:
        form = replace(form, error="Choose a role and how long the link works.")
    try:
        EMAIL.clean(email)
    except ValidationError:
        form = replace(form, email_error="Enter an email address, or leave the field empty.")
    return form


def link_of(secret: str) -> str:
    return settings.LINK_URL + reverse("dashboard:join", args=[secret])


@takes_form("people")
def invite_again(request: HtmxRequest, invitation_id: UUID) -> HttpResponse:
    """Replace an invitation that ran out or was lost, and show the new link once."""
    rows = Invitation.objects.select_related("project").filter(pk=invitation_id)
    row = require_row(rows.first(), "invitation", invitation_id)
    made = invitations.invite_again(row, stamp=stamp_of(request))
    if made is None:
        messages.warning(request, "The invitation was used or revoked before. Create a new one.")
        return redirect(page_url(request))
    visit = begin_visit(request, current="settings")
    visit = replace(visit, scope=replace(visit.scope, project=row.project))
    return views.show(visit, link=link_of(made[1]), invited=made[0], is_again=True)


def revoke_invitation(request: HtmxRequest, invitation_id: UUID) -> HttpResponse:
    row = Invitation.objects.filter(pk=invitation_id).first()
    row = require_row(row, "invitation", invitation_id)
    if invitations.revoke_invitation(row, stamp=stamp_of(request)):
        messages.success(request, "Invitation revoked. Its link no longer works.")
    else:
        messages.warning(request, "The invitation was used or revoked before.")
    return redirect(page_url(request))


def act(request: HtmxRequest, member_id: UUID, verb: str) -> HttpResponse:
    member = Membership.objects.select_related("user", "project").filter(pk=member_id).first()
    verb = request.POST.get("role", "") if verb == "role" else verb
    if member is None or verb not in (*Role.values, "remove"):
        raise Http404(f"There is no member {member_id} with such an action.")
    page, name = page_url(request), member.user.get_username()
    if verb == "remove" and "confirmed" not in request.POST:
        return redirect(f"{page}{'&' if '?' in page else '?'}remove={member_id}")
    try:
        if verb == "remove":
            members.remove_member(member, stamp=stamp_of(request))
            messages.success(request, f"{name} is no longer a member of {member.project.name}.")
        elif members.change_role(member, Role(verb), stamp=stamp_of(request)):
            undo = reverse("dashboard:member_act", args=[member_id, member.role])
            query = read_scope(request).query
            add_message(request, f"{name} is now {as_noun(verb)}.", undo=undo + query)
    except Refusal as refusal:
        messages.warning(request, refusal.detail)
    # A change of the person's own role may have closed this page to them.
    return redirect(page if member.user_id != request.user.pk else reverse("dashboard:home"))


def as_noun(role: str) -> str:
    return f"{'a' if role == Role.VIEWER else 'an'} {role}"


def end_browser(request: HtmxRequest, sign_in_id: UUID) -> HttpResponse:
    # An admin can end the browsers of the project's members, too.
    rows = SignIn.objects.filter(pk=sign_in_id).select_related("user")
    row = rows.first()
    project = read_scope(request).only
    is_own = row is not None and row.user_id == request.user.pk
    is_member = (
        row is not None
        and project is not None
        and may_open(request.user, "member_act")
        and Membership.objects.filter(project=project, user=row.user_id).exists()
    )
    if row is None or not (is_own or is_member):
        raise Http404(f"There is no signed-in browser {sign_in_id}.")
    browsers.end_browsers(rows)
    if project:
        journal.record(
            Kind.MEMBER_SIGNED_OUT,
            subject_type="member",
            subject_id=row.pk,
            project_id=project.pk,
            stamp=stamp_of(request),
            data={"person": row.user.get_username()[:64]},
        )
    messages.success(request, f"{browsers.describe_browser(row.user_agent)} is signed out.")
    return redirect(back_to(request, otherwise=page_url(request)))


def end_person(request: HtmxRequest) -> HttpResponse:
    member_id = as_id(request.POST.get("member", ""))
    found = Membership.objects.select_related("user", "project")
    member = found.filter(pk=member_id).first() if member_id else None
    if member is None:
        raise Http404("Choose one of the project's members.")
    keep = request.session.session_key  # the admin stays signed in here
    ended = members.sign_out(member, keep=keep, stamp=stamp_of(request))
    name = member.user.get_full_name() or member.user.get_username()
    if ended:
        messages.success(request, f"{name} is signed out of {counted(ended, 'browser')}.")
    else:
        messages.warning(request, f"{name} is signed in nowhere else.")
    return redirect(page_url(request))


def end_others(request: HtmxRequest) -> HttpResponse:
    rows = SignIn.objects.filter(user=request.user.pk)
    ended = browsers.end_browsers(rows.exclude(session_key=request.session.session_key))
    if ended:
        messages.success(request, f"{ended} other browser{'s' * (ended != 1)} signed out.")
    else:
        messages.warning(request, "You are signed in nowhere else.")
    return redirect(back_to(request, otherwise=page_url(request)))
