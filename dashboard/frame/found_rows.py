"""Answer a page whose row does not exist."""

from typing import TypeVar

from django.http import Http404

R = TypeVar("R")


def require_row(row: R | None, noun: str, name: object) -> R:
    if row is None:
        raise Http404(f"There is no {noun} {name}.")
    return row
