"""The API's own description, generated once: several modules take their cases from it."""

from functools import cache
from typing import Any

from config.api import api


@cache
def openapi_schema() -> Any:
    return api.get_openapi_schema()
