"""Answer requests that fail because PostgreSQL or Redis is unavailable with 503, not with 500."""

import logging
import sys
from http import HTTPStatus

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.defaults import server_error
from redis.exceptions import RedisError

from config.api_document.problems import problem_response
from config.postgres.database_errors import OUTAGES, describe, describe_effect
from config.requests.web_threads import takes_tokens

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 1
REDIS_RETRY_AFTER_S = 30
WITHOUT_REDIS = "This action needs Redis. Nothing was changed."


def answer_server_error(request: HttpRequest) -> HttpResponse:
    """Answer an exception that no view has handled, in a view or in middleware."""
    error = sys.exception()
    if isinstance(error, OUTAGES):
        return answer_outage(request, error)
    if isinstance(error, RedisError):
        logger.warning("%s %s failed without Redis: %s", request.method, request.path, error)
        title = "Redis can’t be reached"
        return render_outage(request, title, WITHOUT_REDIS, retry_after_s=REDIS_RETRY_AFTER_S)
    return server_error(request)


def answer_outage(request: HttpRequest, error: Exception) -> HttpResponse:
    """Answer a request that PostgreSQL could not serve: with a problem, or with a page."""
    logger.warning("database error at %s %s: %s", request.method, request.path, describe(error))
    effect = describe_effect(error)
    if not takes_tokens(request.path_info):
        title = "The database is unavailable"
        return render_outage(request, title, effect, retry_after_s=RETRY_AFTER_S)
    return mark_logged(
        problem_response(request, "temporarily_unavailable", effect, retry_after_s=RETRY_AFTER_S)
    )


def render_outage(
    request: HttpRequest, title: str, effect: str, *, retry_after_s: int
) -> HttpResponse:
    request.user = AnonymousUser()  # no template can ask the database who it is
    page = render_to_string("503.html", {"request": request, "title": title, "effect": effect})
    response = HttpResponse(page, status=HTTPStatus.SERVICE_UNAVAILABLE)
    response["Retry-After"] = str(retry_after_s)
    return mark_logged(response)


def mark_logged(response: HttpResponse) -> HttpResponse:
    """Keep Django from logging the response, whose error is already in the log."""
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response
