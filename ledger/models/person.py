"""People: their roles in projects, invitations, sign-ins, preferences, and saved views."""

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from ledger.authorization.roles import Role
from ledger.models.fields import key, stamp
from ledger.models.project import Project


class Membership(models.Model):
    """A person's role in a project."""

    id = key()
    project = models.ForeignKey(Project, models.CASCADE)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, db_index=False, related_name="memberships"
    )
    role = models.CharField(max_length=8, choices=Role.choices)
    group = models.CharField(
        max_length=200,
        db_default="",
        blank=True,
        help_text="the group at the identity provider that gave the role; or empty",
    )
    added_by = models.CharField(max_length=150)
    created_at = stamp()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "project"], name="membership_unique"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user}: {self.role} of {self.project}"


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def pending(self) -> Self:
        return self.filter(accepted_at=None, revoked_at=None)


class Invitation(models.Model):
    """A link that makes one person a member; only the SHA-256 of its secret is stored."""

    id = key()
    project = models.ForeignKey(Project, models.CASCADE)
    role = models.CharField(max_length=8, choices=Role.choices)
    email = models.EmailField(blank=True, db_default="", help_text="empty: anyone with the link")
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    created_by = models.CharField(max_length=150)
    created_at = stamp()
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, editable=False)
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, editable=False, related_name="+"
    )
    revoked_at = models.DateTimeField(null=True, editable=False)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(role__in=Role.values), name="invitation_role_known")
        ]

    def __str__(self) -> str:
        return f"{self.role} of {self.project} for {self.email or 'anyone with the link'}"


class SignInMethod(models.TextChoices):
    PASSWORD = "password"
    SINGLE_SIGN_ON = "single_sign_on"


class SignIn(models.Model):
    """A browser in which a person is signed in; the session itself is Django's."""

    id = key()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="sign_ins")
    session_key = models.CharField(max_length=40, unique=True, editable=False)
    method = models.CharField(max_length=14, choices=SignInMethod.choices)
    address = models.CharField(max_length=45)
    user_agent = models.CharField(max_length=300, blank=True)
    signed_in_at = stamp()
    last_seen_at = stamp()

    def __str__(self) -> str:
        return f"{self.user} from {self.address}"


class Theme(models.TextChoices):
    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class Preference(models.Model):
    """A person's preferences for the pages."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True)
    theme = models.CharField(max_length=6, choices=Theme.choices, db_default=Theme.SYSTEM)
    time_zone = models.CharField(
        max_length=64, blank=True, db_default="", help_text="empty: that of the browser"
    )
    hides_first_steps = models.BooleanField(
        db_default=False, help_text="whether Overview leaves out the steps to begin with"
    )
    list_columns = models.JSONField(
        default=dict,
        db_default={},
        help_text="by list, the columns that are shown or hidden unlike by default",
    )

    def __str__(self) -> str:
        return f"{self.theme}, {self.time_zone or 'the browser’s time zone'}"


class SignInOutcome(models.TextChoices):
    SIGNED_IN = "signed_in"
    SIGNED_OUT = "signed_out"
    REFUSED = "refused"


class SignInRecord(models.Model):
    """A sign-in, a sign-out or a refusal; it outlives the account.

    The name is that of an account: what is typed in its place may be a password.
    """

    id = key()
    at = stamp()
    outcome = models.CharField(max_length=10, choices=SignInOutcome.choices)
    username = models.CharField(max_length=150, blank=True, help_text="empty: no such account")
    method = models.CharField(max_length=14)
    address = models.CharField(max_length=45, blank=True)
    user_agent = models.CharField(max_length=300, blank=True)

    class Meta:
        indexes = [models.Index(fields=["username", "id"], name="sign_in_record_of")]

    def __str__(self) -> str:
        return f"{self.username or 'no account'} {self.outcome}"


class SavedView(models.Model):
    """A query of a list with its order, under a name that everyone in the project sees."""

    id = key()
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    list = models.CharField(max_length=16, help_text="the list that it filters, such as tasks")
    name = models.CharField(max_length=40)
    query = models.CharField(max_length=300, blank=True)
    sort = models.CharField(max_length=20, blank=True, db_default="")
    created_by = models.CharField(max_length=150)
    created_at = stamp()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "list", "name"], name="saved_view_name_once")
        ]

    def __str__(self) -> str:
        return self.name
