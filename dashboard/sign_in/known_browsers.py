"""Recognize a browser, or an address, from which a person has signed in before."""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse

from dashboard.sign_in.throttle import key_of, network_of, normalize
from ledger.database import server_time
from ledger.models import SignInOutcome, SignInRecord
from ledger.people.browsers import NAME_LENGTH
from ledger.values.ids import first_id

COOKIE = "tenfour_known"
KNOWN_FOR = timedelta(days=365)
MOST_NAMES = 5
MOST_SIGN_INS = 200


def remember_browser(request: HttpRequest, response: HttpResponse, username: str) -> None:
    # The mark does not reveal the name.
    mark = mark_of(username)
    marks = [mark, *(each for each in read_marks(request) if each != mark)]
    response.set_signed_cookie(
        COOKIE,
        ".".join(marks[:MOST_NAMES]),
        max_age=KNOWN_FOR,
        path=settings.LOGIN_URL,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def is_known(request: HttpRequest, username: str) -> bool:
    return mark_of(username) in read_marks(request) or has_signed_in_from(
        request.META.get("REMOTE_ADDR", ""), username
    )


def read_marks(request: HttpRequest) -> list[str]:
    found = request.get_signed_cookie(COOKIE, default="", max_age=KNOWN_FOR)
    return found.split(".") if found else []


def mark_of(username: str) -> str:
    return key_of("known", normalize(username)).rpartition(":")[2]


def has_signed_in_from(address: str, username: str) -> bool:
    """Return whether one of a person's last sign-ins came from the network of an address."""
    name = normalize(username).replace("\0", "")[:NAME_LENGTH]
    user = User.objects.filter(username__iexact=name).order_by("pk").first()
    if user is None:
        return False
    records = SignInRecord.objects.filter(
        username=user.username,
        outcome=SignInOutcome.SIGNED_IN,
        pk__gt=first_id(server_time.now() - KNOWN_FOR),
    )
    addresses = records.order_by("-pk").values_list("address", flat=True)[:MOST_SIGN_INS]
    return network_of(address) in map(network_of, addresses)
