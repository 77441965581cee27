"""A WSGI application that answers with the names and values of its environment."""

import json
import time
from collections.abc import Callable, Iterable
from typing import Any


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/slow":
        time.sleep(1)
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "application/json")])
    seen = {name: str(value) for name, value in environ.items()} | {"body": body.decode()}
    return [json.dumps(seen).encode()]
