"""A WSGI application that answers with its environment and process."""

import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/slow":
        Path(unquote(environ["QUERY_STRING"])).touch()  # it has begun
        time.sleep(1)
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "application/json")])
    seen = {name: str(value) for name, value in environ.items()}
    return [json.dumps(seen | {"body": body.decode(), "pid": os.getpid()}).encode()]
