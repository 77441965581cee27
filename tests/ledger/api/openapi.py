"""The API's own description, generated once: several modules take their cases from it."""

from functools import cache
from typing import Any

from config.api import api


@cache
def openapi_schema() -> Any:
    return api.get_openapi_schema()


def responses_of(operation: dict[str, Any]) -> dict[Any, Any]:
    """The responses of an operation, each in full where the description refers to a shared one."""
    shared = openapi_schema()["components"]["responses"]
    return {
        status: shared[response["$ref"].rpartition("/")[2]] if "$ref" in response else response
        for status, response in operation["responses"].items()
    }
