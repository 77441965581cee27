"""The WSGI application: pages use all middleware, API calls only a part of it."""

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import get_template

from config.request_bodies import Request

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)


class PageHandler(WSGIHandler):
    request_class = Request


class ApiHandler(PageHandler):
    """Serve /v1 and /mcp without sessions, CSRF, and messages, which bearer calls don't use.

    Both overrides serve the figure "ack over HTTP / floor endpoint" in docs/performance.md.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        """Load API_MIDDLEWARE instead of MIDDLEWARE."""
        middleware, settings.MIDDLEWARE = settings.MIDDLEWARE, settings.API_MIDDLEWARE
        try:
            super().load_middleware(is_async)
        finally:
            settings.MIDDLEWARE = middleware

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Add Content-Length; without it, gunicorn sends chunks, which takes another write."""
        response = super().get_response(request)
        if isinstance(response, HttpResponse):
            response.headers.setdefault("Content-Length", str(len(response.content)))
        return response


pages = PageHandler()
api = ApiHandler()


def load() -> None:
    """Import every view and compile every template before gunicorn forks its workers.

    This must not query the database: the workers would share the connection.
    """
    import_module(settings.ROOT_URLCONF)
    folder = settings.BASE_DIR / "templates"
    for path in folder.rglob("*.html"):
        get_template(str(path.relative_to(folder)))


load()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    path = environ["PATH_INFO"]
    handler = api if path.startswith("/v1/") or path == "/mcp" else pages
    return handler(environ, start_response)
