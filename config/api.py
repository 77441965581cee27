"""The API: its routers, how bodies are read, and which problem every error becomes."""

import json
import logging
import math
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from django.conf import settings
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.parser import Parser

from config import __version__
from config.openapi import Documented
from config.problems import CODES, problem, refused
from ledger import optional_cache
from ledger.api import agents, instructions, platform, tasks
from ledger.errors import BadRequest, Invalid, Refusal, UnsupportedMediaType
from ledger.redaction import DEEPEST
from retries.api import attempts as attempts
from retries.api import breakers as breakers
from retries.api import deadletters, escalations, plans, renderings
from retries.api import questions as questions
from retries.api import retry_context as retry_context

logger = logging.getLogger(__name__)

# NUL and half characters: the latter also as bytes, which UTF-8 does not allow
SUSPECT = re.compile(rb"\\u(0000|[dD][89a-fA-F])|\xed[\xa0-\xbf]")
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# what programs printed is hostile text, and cleaned: a report is not lost for it
PRINTED = re.compile(r"/v1/attempts/[^/]+/(result|heartbeat)")
# what agents ask all the time is found without trying the others
ASKED_MOST = {
    "claims",
    "attempts/<id>/result",
    "attempts/<id>/heartbeat",
    "instructions/pull",
    "instructions/<id>/ack",
}


class StrictParser(Parser):
    """Reads JSON that PostgreSQL can keep: no NaN, no NUL, no half characters."""

    def parse_body(self, request: HttpRequest) -> Any:
        if request.content_type != "application/json":
            raise UnsupportedMediaType(f"The body came as '{request.content_type}'.")
        too_deep = f"The body is nested more than {DEEPEST} deep."
        try:
            text = request.body.decode(json.detect_encoding(request.body), "surrogatepass")
            body = read_json(text)
        except RecursionError as error:
            raise BadRequest(too_deep) from error
        except ValueError as error:
            raise BadRequest(f"The body is not JSON: {error}") from error
        if request.body.count(b"[") + request.body.count(b"{") > DEEPEST and is_deep(body):
            raise BadRequest(too_deep)
        if SUSPECT.search(request.body):
            if PRINTED.fullmatch(request.path_info):
                return storable(body)
            for pointer, text in strings(body):
                if found := UNSTORABLE.search(text):
                    raise Invalid(
                        pointer,
                        f"The character U+{ord(found[0]):04X} at {found.start()} can't be stored.",
                    )
        return body

    def parse_querydict(self, data: Any, list_fields: list[str], request: HttpRequest) -> Any:
        for name, values in data.lists():
            if any("\x00" in value for value in values):
                raise Invalid(f"/{name}", "The character U+0000 is not allowed.")
        return super().parse_querydict(data, list_fields, request)


def is_deep(value: Any) -> bool:
    """Whether a JSON value is nested deeper than what is kept of it."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return any(isinstance(each, (dict, list)) for each in level)


def finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"{digits} is larger than any number that can be kept")
    return number


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


read_json = json.JSONDecoder(parse_constant=refuse_constant, parse_float=finite).decode


def strings(value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Every string in a JSON value, keys included, with where it stands."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield pointer, key
            yield from strings(inner, f"{pointer}/{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from strings(inner, f"{pointer}/{index}")


def storable(value: Any) -> Any:
    """A JSON value without the characters that can't be kept."""
    if isinstance(value, str):
        return UNSTORABLE.sub("", value)
    if isinstance(value, dict):
        return {storable(name): storable(inner) for name, inner in value.items()}
    return [storable(inner) for inner in value] if isinstance(value, list) else value


class TenfourAPI(Documented, NinjaAPI):
    """NinjaAPI with Tenfour's description of itself."""

    def create_temporal_response(self, request: HttpRequest) -> HttpResponse:
        """Every request comes to its view this way, and brings how a refusal is told."""
        request.problem_of = partial(self.on_exception, request)  # type: ignore[attr-defined]
        return super().create_temporal_response(request)

    def _get_urls(self) -> list[Any]:
        """The addresses in the order in which they are tried."""
        return sorted(super()._get_urls(), key=lambda url: str(url.pattern) not in ASKED_MOST)


api = TenfourAPI(
    title="Tenfour",
    version=__version__,
    description="The reliability ledger for AI agents' work.",
    urls_namespace="v1",
    parser=StrictParser(),
    docs_url="/docs" if settings.TENFOUR["OPEN_DOCS"] else None,
    openapi_url="/openapi.json" if settings.TENFOUR["OPEN_DOCS"] else None,
)
api.add_router("", instructions.router)
api.add_router("", tasks.router)  # with what `work` and `questions` add to it
api.add_router("", plans.router)
api.add_router("", platform.router)
api.add_router("", agents.router)  # with what `retries.api.breakers` adds to it
api.add_router("", escalations.router)
api.add_router("", deadletters.router)
api.add_router("", renderings.router)


@api.exception_handler(Refusal)
def on_refusal(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    if CODES[refusal.code][0] == 401 and (wait := too_many_failures(request)):
        return problem(
            request,
            "rate_limited",
            "Too many requests with a wrong token came from this address.",
            hint="Mend the token, then go on; a right token is never limited.",
            retry_after_s=wait,
        )
    return refused(request, refusal)


def too_many_failures(request: HttpRequest) -> int:
    """Count a failed authentication; how many seconds to wait when there were too many."""
    count = optional_cache.count(f"auth-failures:{request.META.get('REMOTE_ADDR')}", seconds=60)
    return 60 if count > settings.TENFOUR["AUTH_FAILURES_PER_MINUTE"] else 0


# what would be told in words of Python
MENDED = {"model_type": "Input should be an object"}


@api.exception_handler(ValidationError)
def on_invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    errors = [
        {"pointer": pointer_of(each["loc"]), "detail": MENDED.get(each["type"], each["msg"])}
        for each in error.errors
    ]
    first = f"{errors[0]['pointer']}: {errors[0]['detail']}" if errors else "A value does not fit."
    return problem(request, "validation_error", first, hint=Invalid.hint, errors=errors)


def pointer_of(loc: tuple[Any, ...]) -> str:
    """The JSON pointer of a place that ninja names ('body', parameter, field, …)."""
    inner = loc[2:] if loc[0] == "body" else loc[1:]
    return "/" + "/".join(str(part) for part in inner)


@api.exception_handler(HttpError)
def on_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    if isinstance(error.__cause__, Refusal):  # what the parser said, in ninja's wrapping
        return on_refusal(request, error.__cause__)
    return problem(request, "bad_request", str(error))


@api.exception_handler(Http404)
def on_404(request: HttpRequest, error: Http404) -> HttpResponse:
    return problem(request, "not_found", str(error) or "There is no such thing.")


@api.exception_handler(DataError)
def on_data_error(request: HttpRequest, error: DataError) -> HttpResponse:
    detail = f"PostgreSQL can't keep a value: {str(error).splitlines()[0]}"
    return problem(request, "validation_error", detail, errors=[])


@api.exception_handler(OperationalError)
@api.exception_handler(InterfaceError)
def on_database_away(request: HttpRequest, error: Exception) -> HttpResponse:
    logger.warning("the database did not answer: %s", error)
    return problem(
        request,
        "temporarily_unavailable",
        "The database did not answer. What this request asked for may or may not have happened.",
        hint="Send it again; with the same Idempotency-Key it is done once.",
        retry_after_s=1,
    )


@api.exception_handler(Exception)
def on_mistake(request: HttpRequest, error: Exception) -> HttpResponse:
    logger.exception("unexpected error")
    return problem(
        request,
        "internal_error",
        "Something unexpected went wrong; the log has it under this request_id.",
        hint="Report it with the request_id.",
    )
