"""The API: its routers, the parser of request bodies, and the problem of each error."""

import logging
import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, cast, get_args

from django.conf import settings
from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from ninja import NinjaAPI, Router
from ninja.errors import HttpError, ValidationError, ValidationErrorContext
from ninja.operation import Operation
from ninja.parser import Parser
from pydantic import BaseModel

from config import __version__
from config.api_document.introduction import INTRODUCTION
from config.api_document.openapi import complete_schema, scopes_of
from config.api_document.problems import (
    STATUS,
    count_auth_failure,
    problem_response,
    refusal_response,
)
from config.postgres.database_errors import OUTAGES
from config.requests.json_bodies import clean_body, convert_yaml, parse_body
from config.requests.outages import answer_outage, mark_logged
from ledger.access import auth_failures
from ledger.api import (
    agents,
    events,
    instructions,
    markers,
    me,
    pools,
    standing_instructions,
    stats,
    tokens,
)
from ledger.api.cursors import BadCursor
from ledger.errors import Invalid, Refusal, TooManyAuthFailures, UnsupportedMediaType
from ledger.planfile.canonical import suggest_key
from ledger.planfile.reading import MEDIA
from retries.agent_hooks import api as agent_hooks
from retries.api import (
    attempt_reads,
    attempts,
    breakers,
    claims,
    deadletters,
    escalations,
    holds,
    operations,
    permissions,
    plans,
    questions,
    renderings,
    retry_context,
    tasks,
)
from retries.api.notifications import deliveries, webhooks
from retries.api.notifications import rules as notification_rules
from retries.api.patterns import fixes as pattern_fixes
from retries.api.patterns import pattern as patterns
from retries.api.policies import experiments
from retries.api.policies import policy as policies
from retries.api.sessions import attempt_output, traces
from retries.api.sessions import imports as session_imports
from retries.api.sessions import session as sessions
from retries.api.sessions import tasks as session_tasks
from retries.api.settings import budgets, on_call, targets

logger = logging.getLogger(__name__)

# These bodies contain the output of programs, which is cleaned so that it costs no report.
CLEANED_PATHS = re.compile(
    r"/v1/(attempts/[^/]+/(result|heartbeat|output)|hooks/agent|permissions"
    r"|sessions/[^/]+/messages)"
)
# Its pieces have places, which count bytes.
COUNTED_PATHS = re.compile(r"/v1/attempts/[^/]+/output")
# These bodies may be YAML: executors of plans write their results in it.
YAML_PATHS = re.compile(r"/v1/attempts/[^/]+/result")
# Query parameters that contain a cursor.
CURSORS = ("cursor", "after")


class StrictParser(Parser):
    """Read JSON that PostgreSQL can store: no NaN, no NUL, no lone surrogates, no repeated keys."""

    def parse_body(self, request: HttpRequest) -> Any:
        raw, media = request.body, request.content_type or ""
        if media != "application/json":
            if MEDIA.get(media) != "yaml" or not YAML_PATHS.fullmatch(request.path_info):
                raise UnsupportedMediaType(
                    f"The body's content type is '{media}', not application/json."
                )
            raw = convert_yaml(raw)
        cleaned = bool(CLEANED_PATHS.fullmatch(request.path_info))
        is_counted = bool(COUNTED_PATHS.fullmatch(request.path_info))
        return clean_body(parse_body(raw), raw, cleaned=cleaned, is_counted=is_counted)

    def parse_querydict(self, data: Any, list_fields: list[str], request: HttpRequest) -> Any:
        for name, values in data.lists():
            if any("\x00" in value for value in values):
                if name in CURSORS:
                    raise BadCursor("The cursor is malformed.")
                raise Invalid(f"/{name}", "The character U+0000 is not allowed.")
        return super().parse_querydict(data, list_fields, request)


# ---- the routers

# An address belongs to one router: `retries.api.tasks` adds to the one of `ledger.api.tasks`.
ROUTERS = tuple(
    module.router
    for module in (
        me,
        agents,
        breakers,
        pools,
        instructions,
        holds,
        standing_instructions,
        tasks,
        claims,
        attempt_output,
        attempt_reads,
        attempts,
        questions,
        retry_context,
        plans,
        policies,
        budgets,
        experiments,
        escalations,
        on_call,
        targets,
        permissions,
        patterns,
        pattern_fixes,
        deadletters,
        renderings,
        markers,
        tokens,
        webhooks,
        notification_rules,
        deliveries,
        operations,
        agent_hooks,
        session_imports,
        session_tasks,
        sessions,
        traces,
        events,
        stats,
    )
)


def parameters_of(routers: Iterable[Router]) -> dict[Callable[..., Any], list[str]]:
    return {
        operation.view_func: [
            name
            for model in operation.models
            if model.__ninja_param_source__ == "query"
            for name in getattr(model, "__ninja_flatten_map__", {})
        ]
        for router in routers
        for view in router.path_operations.values()
        for operation in view.operations
    }


PARAMETERS = parameters_of(ROUTERS)


def refuse_other_parameters(view: Callable[..., Any]) -> Callable[..., Any]:
    known = PARAMETERS[view]

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **values: Any) -> Any:
        if request.META.get("QUERY_STRING"):
            check_parameters(request.GET, known)
        return view(request, *args, **values)

    return checked


def check_parameters(query: QueryDict, known: list[str]) -> None:
    """Raise Invalid for a query parameter that is not known or that is sent twice."""
    for name, values in query.lists():
        if name not in known:
            takes = f"takes only: {', '.join(known)}" if known else "takes no query parameters"
            raise Invalid(f"/{name}", f"The query parameter is unknown. This operation {takes}.")
        if len(values) > 1:
            raise Invalid(f"/{name}", "The query parameter is repeated. Send it only once.")


class TenfourAPI(NinjaAPI):
    """The API with its completed OpenAPI description."""

    def create_temporal_response(self, request: HttpRequest) -> HttpResponse:
        # Every operation returns its own response, so ninja needs to create none. This serves the
        # figure "ack over HTTP / floor endpoint" in docs/performance.md.
        return cast(HttpResponse, None)

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> ValidationError:
        # The error of an unknown key names the nearest known key.
        error = super().validation_error_from_error_contexts(error_contexts)
        found = (
            (context.model, each)
            for context in error_contexts
            for each in context.pydantic_validation_error.errors(include_url=False)
        )
        for told, (model, each) in zip(error.errors, found, strict=True):
            if each["type"] == "extra_forbidden" and (known := known_keys(model, each["loc"])):
                told["msg"] = suggest_key(str(each["loc"][-1]), known)
        return error

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(self, **kwargs: Any) -> Any:
        return complete_schema(super().get_openapi_schema(**kwargs), scopes=scopes_of(ROUTERS))


api = TenfourAPI(
    title="Tenfour",
    version=__version__,
    description=INTRODUCTION,
    urls_namespace="v1",
    parser=StrictParser(),
    docs_url="/docs" if settings.TENFOUR["OPEN_DOCS"] else None,
    openapi_url="/openapi.json" if settings.TENFOUR["OPEN_DOCS"] else None,
)
api.add_decorator(refuse_other_parameters)
for router in ROUTERS:
    api.add_router("", router)


# ---- problems


@api.exception_handler(Refusal)
def on_refusal(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    if STATUS[refusal.code] == 401 and (wait := count_auth_failure(request, refusal)):
        detail = f"{refusal.detail} Too many such requests came from this address."
        return refusal_response(request, TooManyAuthFailures(detail, retry_after_s=wait))
    if refusal.code == "scope_missing":
        auth_failures.note_failure(request.META, refusal)
    return refusal_response(request, refusal)


# pydantic's own messages name a Python class, and the characters of a UUID.
MESSAGES = {
    "model_type": "Input should be an object",
    "uuid_parsing": "Input should be an id, such as 01a1fe6d-9b01-7830-98b6-0164ecc5924c",
}


@api.exception_handler(ValidationError)
def on_invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    errors = [
        {"pointer": json_pointer(each["loc"]), "detail": MESSAGES.get(each["type"], each["msg"])}
        for each in error.errors
    ]
    first = f"{errors[0]['pointer']}: {errors[0]['detail']}" if errors else "A value is invalid."
    return problem_response(request, "validation_error", first, errors=errors)


def known_keys(model: Any, loc: tuple[int | str, ...]) -> list[str]:
    for part in loc[:-1]:
        if isinstance(part, str):
            fields = model.model_fields if model else {}
            model = find_model(fields[part].annotation) if part in fields else None
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def find_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(find_model, get_args(annotation))), None)


def json_pointer(loc: tuple[Any, ...]) -> str:
    """Return the JSON pointer for a location from ninja ('body', parameter, field, …)."""
    inner = loc[2:] if loc[0] == "body" else loc[1:]
    return "/" + "/".join(str(part) for part in inner)


@api.exception_handler(HttpError)
def on_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    if isinstance(error.__cause__, Refusal):  # ninja wraps the errors of the parser
        return on_refusal(request, error.__cause__)
    return problem_response(request, "bad_request", str(error))


@api.exception_handler(Http404)
def on_404(request: HttpRequest, error: Http404) -> HttpResponse:
    return problem_response(request, "not_found", str(error) or "The resource does not exist.")


@api.exception_handler(DataError)
def on_data_error(request: HttpRequest, error: DataError) -> HttpResponse:
    detail = f"PostgreSQL can't store a value: {str(error).splitlines()[0]}"
    return problem_response(request, "validation_error", detail, errors=[])


for outage in OUTAGES:
    api.exception_handler(outage)(answer_outage)


@api.exception_handler(Exception)
def on_unexpected_error(request: HttpRequest, error: Exception) -> HttpResponse:
    logger.exception("unexpected error at %s %s", request.method, request.path)
    detail = "An unexpected error occurred. The log has it by request_id."
    return mark_logged(problem_response(request, "internal_error", detail))
