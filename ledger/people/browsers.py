"""The browsers in which people are signed in: note them, list them and end them."""

import re
from datetime import datetime, timedelta
from importlib import import_module

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from ledger.models import SignIn, SignInOutcome, SignInRecord
from ledger.values.ids import first_id

NAME_LENGTH = 150
SEEN_EVERY = timedelta(minutes=1)
ROWS_DELETED = 1000
# Django stores a session a moment after its browser was noted.
SESSION_IS_STORED = timedelta(days=1)
# the names in a browser's header, the most specific ones first
BROWSERS = (
    ("Edge", r"\bEdg(e|A|iOS)?/"),
    ("Opera", r"\bOPR/"),
    ("Firefox", r"\b(Firefox|FxiOS)/"),
    ("Chrome", r"\b(Headless)?(Chrome|CriOS)/"),
    ("Safari", r"\bSafari/"),
)
SYSTEMS = (
    ("iPhone", r"\biPhone\b"),
    ("iPad", r"\biPad\b"),
    ("Android", r"\bAndroid\b"),
    ("Windows", r"\bWindows\b"),
    ("macOS", r"\bMac OS X\b"),
    ("Linux", r"\bLinux\b"),
)


def describe_browser(user_agent: str) -> str:
    """Return the name of a browser and its system.

    >>> describe_browser("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
    'Firefox on Linux'
    """
    name = next((name for name, form in BROWSERS if re.search(form, user_agent)), "")
    system = next((name for name, form in SYSTEMS if re.search(form, user_agent)), "")
    if not name:
        return user_agent.split("/")[0][:40] or "Unknown browser"
    return f"{name} on {system}" if system else name


def record_sign_in(
    outcome: SignInOutcome, username: str, *, method: str, address: str, user_agent: str
) -> None:
    # A name that is no account's is left out.
    known = User.objects.filter(username__iexact=username[:NAME_LENGTH]).order_by("pk").first()
    SignInRecord.objects.create(
        outcome=outcome,
        username=known.username if known else "",
        method=method,
        address=address[:45],
        user_agent=user_agent[:300],
    )


def delete_sign_in_records(*, before: datetime, most: int) -> int:
    """Delete the oldest records of sign-ins before a time; return how many there were."""
    old = SignInRecord.objects.filter(pk__lt=first_id(before)).order_by("pk")
    ids = list(old.values_list("pk", flat=True)[:most])
    deleted, _ = SignInRecord.objects.filter(pk__in=ids).delete()
    return deleted


def note_sign_in(
    user: User, *, session_key: str, method: str, address: str, user_agent: str, now: datetime
) -> SignIn:
    return SignIn.objects.update_or_create(
        session_key=session_key,
        defaults={
            "user": user,
            "method": method,
            "address": address[:45],
            "user_agent": user_agent[:300],
            "signed_in_at": now,
            "last_seen_at": now,
        },
    )[0]


def note_seen(session_key: str, *, now: datetime) -> None:
    # A browser's row is written at most once a minute.
    rows = SignIn.objects.filter(session_key=session_key, last_seen_at__lt=now - SEEN_EVERY)
    rows.update(last_seen_at=now)


def signed_in(now: datetime) -> QuerySet[SignIn]:
    live = Session.objects.filter(expire_date__gt=now).values("session_key")
    return SignIn.objects.filter(session_key__in=live)


def delete_expired_sessions(now: datetime) -> int:
    """Delete some expired sessions, also of people who never signed in; return how many."""
    # Their copies in Redis expire by themselves.
    old = Session.objects.filter(expire_date__lt=now).order_by("expire_date")
    keys = list(old.values_list("session_key", flat=True)[:ROWS_DELETED])
    # one that is used again by now has another date
    return old.order_by().filter(session_key__in=keys).delete()[0]


def delete_ended_sign_ins(now: datetime) -> int:
    """Delete the notes of some browsers whose sessions are gone; return how many."""
    live = Session.objects.filter(session_key=OuterRef("session_key"))
    old = SignIn.objects.filter(~Exists(live), last_seen_at__lt=now - SESSION_IS_STORED)
    ids = list(old.order_by("pk").values_list("pk", flat=True)[:ROWS_DELETED])
    return SignIn.objects.filter(pk__in=ids).delete()[0]


@transaction.atomic
def end_browsers(rows: QuerySet[SignIn]) -> int:
    """Sign people out in these browsers, at once; return in how many."""
    # It fails while Redis is away, and the browsers stay in the list.
    keys = list(rows.order_by("pk").values_list("session_key", flat=True))
    store = import_module(settings.SESSION_ENGINE).SessionStore
    for key in keys:
        store(key).delete()
    return SignIn.objects.filter(session_key__in=keys).delete()[0]
