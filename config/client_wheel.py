"""Serve the client's wheel, so that `pip install` works with this server's address alone."""

import hashlib
import re
import tempfile
from functools import cache
from pathlib import Path
from threading import Lock

from django.http import HttpRequest, HttpResponse
from django.utils.http import quote_etag
from django.views.decorators.http import condition, require_safe

from config.local.client_wheel import SOURCE, build_wheel

VERSION = re.compile(r"""^__version__ = ['"]([^'"]+)['"]""", re.M)
building = Lock()


def wheel_name() -> str:
    """Return the wheel's file name, from the client's source.

    >>> wheel_name().startswith("tenfour-")
    True
    """
    found = VERSION.search((SOURCE / "tenfour" / "version.py").read_text("utf-8"))
    assert found
    return f"tenfour-{found[1]}-py3-none-any.whl"


def read_wheel() -> bytes:
    # Each process builds the wheel once, at the first request.
    with building:
        return built_wheel()


@cache
def built_wheel() -> bytes:
    with tempfile.TemporaryDirectory(prefix="tenfour-client-") as folder:
        return build_wheel(Path(folder)).read_bytes()


def etag_of(request: HttpRequest) -> str:
    return quote_etag(hashlib.sha256(read_wheel()).hexdigest())


@require_safe
@condition(etag_func=etag_of)
def client_wheel(request: HttpRequest) -> HttpResponse:
    # The wheel is the same for everyone, so no token is needed.
    headers = {
        "Content-Disposition": f'attachment; filename="{wheel_name()}"',
        # A version under development changes without a new number.
        "Cache-Control": "public, no-cache",
        "X-Content-Type-Options": "nosniff",
    }
    wheel = read_wheel()
    return HttpResponse(wheel, content_type="application/octet-stream", headers=headers)
