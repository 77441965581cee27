"""Messages with buttons: one that undoes what was done, and a link that follows it."""

from collections.abc import Callable
from dataclasses import dataclass

from django.contrib import messages
from django.contrib.messages.storage.base import Message
from django.http import HttpRequest

from dashboard.form_values import quote_typed
from ledger.database import sql
from ledger.errors import Refusal

SHOWN_S = 10


@dataclass(frozen=True, slots=True)
class ToastLinks:
    """The address that a message's button posts, and the page that its link opens.

    `shown_s` is how long a message with either stays.
    """

    undo: str
    follow: str
    shown_s: int


def add_message(
    request: HttpRequest, text: str, *, undo: str = "", follow: str = "", shown_s: int = SHOWN_S
) -> None:
    # URLs have no spaces, so they separate the values
    messages.success(request, text, extra_tags=f"{undo} {follow} {shown_s}")


def tell_result(request: HttpRequest, change: Callable[[], str], *, typed: str = "") -> bool:
    """Make a change in one transaction, and say so on the next page; return whether it was made."""
    try:
        said = sql.atomic(change)()
    except Refusal as refusal:
        messages.warning(request, f"{refusal.detail} Nothing was changed.{quote_typed(typed)}")
        return False
    messages.success(request, said)
    return True


def read_links(message: Message) -> ToastLinks:
    undo, _, rest = (message.extra_tags or "").partition(" ")
    follow, _, shown_s = rest.partition(" ")
    return ToastLinks(undo, follow, int(shown_s or SHOWN_S))
