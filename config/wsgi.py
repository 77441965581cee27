"""The WSGI application: pages use all middleware, API calls only a part of it."""

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import django
from django.conf import settings
from django.contrib.auth import get_user
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.db import DEFAULT_DB_ALIAS, connections
from django.http import HttpResponse
from django.template.loader import get_template

from config.postgres.database_errors import OUTAGES
from config.requests.browser_sessions import SessionStore
from config.requests.content_types import read_content_type
from config.requests.frame_memory import in_one_block
from config.requests.session_signatures import renew_signature
from config.requests.web_threads import PERSON, UNREAD, BodyNotRead, takes_tokens

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)


class ApiHandler(WSGIHandler):
    """Serve /v1 and /mcp without sessions, CSRF, and messages, which bearer calls don't use.

    Both overrides serve the figure "ack over HTTP / floor endpoint" in docs/performance.md.
    """

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        # Of their receivers, only the one that closes old connections has work to do here.
        connections[DEFAULT_DB_ALIAS].close_if_unusable_or_obsolete()
        request = self.request_class(environ)
        response = self.get_response(request)
        start_response(f"{response.status_code} {response.reason_phrase}", [*response.items()])
        # A stream is closed by the web server.
        return [response.content] if isinstance(response, HttpResponse) else response

    def load_middleware(self, is_async: bool = False) -> None:
        middleware, settings.MIDDLEWARE = settings.MIDDLEWARE, settings.API_MIDDLEWARE
        try:
            super().load_middleware(is_async)
        finally:
            settings.MIDDLEWARE = middleware


pages = in_one_block(WSGIHandler())
api = ApiHandler()


def load() -> None:
    """Import every view and compile every template before the web server forks its workers."""
    # This must not query the database: the workers would share the connection.
    import_module(settings.ROOT_URLCONF)
    folder = settings.BASE_DIR / "templates"
    for path in folder.rglob("*.html"):
        get_template(str(path.relative_to(folder)))


load()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    if ";" in (text := environ.get("CONTENT_TYPE") or ""):
        environ["CONTENT_TYPE"] = read_content_type(text)
    has_token = takes_tokens(environ["PATH_INFO"])
    if UNREAD in environ and not has_token:
        if person := find_person(environ):
            environ[PERSON] = person
        raise BodyNotRead
    handler = api if has_token else pages
    return handler(environ, start_response)


def find_person(environ: dict[str, Any]) -> str:
    request = WSGIRequest(environ)
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    if not key:
        return ""
    connections[DEFAULT_DB_ALIAS].close_if_unusable_or_obsolete()
    request.session = SessionStore(key)
    try:
        renew_signature(request.session)
        user = get_user(request)
    except OUTAGES:  # the page says so, once it has its body
        return ""
    return f"person:{user.pk}" if user.is_authenticated else ""
