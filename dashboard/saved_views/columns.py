"""Pin the columns of a list: each person has their own, in every browser."""

import re
from collections.abc import Sequence
from typing import Any, cast

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.access import may_open
from dashboard.frame.rendering import HtmxRequest, Visit, back_to
from dashboard.saved_views.strip import BUILT_IN
from ledger.models import Preference

MOST = 30
NAME = re.compile(r"[a-z0-9-]{1,40}")
# the lists whose optional columns are hidden by default; the others hide columns on request
SHOWS = {"tasks"}


def read_columns(visit: Visit, noun: str) -> Sequence[str]:
    # accounts are read with them
    names = getattr(visit.request.user, "list_columns", {}).get(noun, ())
    return cast(Sequence[str], names)


def name_hidden(columns: Sequence[Any], first: int) -> str:
    """Return the CSS classes that hide columns, of which one stands at the place `first`."""
    return " ".join(f"hide-{n}" for n, each in enumerate(columns, first) if each.is_hidden)


def save(request: HtmxRequest, noun: str) -> HttpResponse:
    if noun not in BUILT_IN or not may_open(request.user, noun):
        raise Http404(f"There is no list “{noun[:20]}” with columns.")
    user: Any = request.user
    chosen, offered = (request.POST.getlist(each)[:MOST] for each in ("column", "offered"))
    known = [each for each in offered if NAME.fullmatch(each)]
    names = [each for each in known if (each in chosen) == (noun in SHOWS)]
    pinned = {name: of for name, of in user.list_columns.items() if name != noun}
    pinned |= {noun: names} if names else {}
    Preference.objects.update_or_create(user=user, defaults={"list_columns": pinned})
    messages.success(request, "Your columns are saved.")
    return redirect(back_to(request, otherwise=reverse(f"dashboard:{noun}")))
