"""The record of who signed in and out, and who was refused."""

from django.db import models

from ledger.models.fields import key, stamp


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
