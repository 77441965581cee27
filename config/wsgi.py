"""The WSGI application: pages get the whole middleware list, bearer calls the short one."""

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import django
from django.conf import settings
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import get_template
from django.utils.module_loading import import_string

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)


class ApiHandler(WSGIHandler):
    """Serves /v1 without sessions, CSRF and messages, which no bearer call uses."""

    def load_middleware(self, is_async: bool = False) -> None:
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        handler = convert_exception_to_response(self._get_response)  # type: ignore[attr-defined]
        for path in reversed(settings.API_MIDDLEWARE):
            handler = convert_exception_to_response(import_string(path)(handler))
        self._middleware_chain = handler

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        """An answer that says its length: gunicorn would send it in chunks, one write more each."""
        response = super().get_response(request)
        if isinstance(response, HttpResponse):
            response.headers.setdefault("Content-Length", str(len(response.content)))
        return response


pages = WSGIHandler()
api = ApiHandler()


def load() -> None:
    """Import every view and compile every template, before there are workers that share them.

    The database is not asked: they would share the connection, too.
    """
    import_module(settings.ROOT_URLCONF)
    folder = settings.BASE_DIR / "templates"
    for path in folder.rglob("*.html"):
        get_template(str(path.relative_to(folder)))


load()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    handler = api if environ["PATH_INFO"].startswith("/v1/") else pages
    return handler(environ, start_response)
