"""Restrict pages to signed-in staff; every view checks it, never a template."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.db import DEFAULT_DB_ALIAS
from django.http import HttpResponse, HttpResponseBase
from django.utils.cache import add_never_cache_headers

from ledger import sql

P = ParamSpec("P")
COLUMNS = [field.attname for field in User._meta.concrete_fields]
USER = f"select {', '.join(COLUMNS)} from {User._meta.db_table} where id = %(id)s"


class People(ModelBackend):
    """Django's accounts, read by a prepared statement because every poll needs one."""

    def get_user(self, user_id: int) -> User | None:
        for row in sql.run(USER, id=user_id):
            user = User.from_db(DEFAULT_DB_ALIAS, COLUMNS, list(row.values()))
            return user if self.user_can_authenticate(user) else None
        return None


View = Callable[Concatenate[Any, P], HttpResponseBase]


def may_enter(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether a user is an operator: active staff, as there are no roles yet."""
    return user.is_active and bool(getattr(user, "is_staff", False))


def operators_only(view: View[P]) -> View[P]:
    """Redirect other users to sign in; a script gets 401, so that no form lands in a page."""

    @wraps(view)
    def guarded(request: Any, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        response: HttpResponseBase
        if may_enter(request.user):
            response = view(request, *args, **kwargs)
        elif request.headers.get("HX-Request") == "true":
            response = HttpResponse("You are signed out.", status=401, content_type="text/plain")
        else:
            response = redirect_to_login(request.get_full_path())
        add_never_cache_headers(response)
        return response

    return guarded
