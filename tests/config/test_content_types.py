"""Content types that name odd encodings, which Django reads before any middleware runs."""

from io import BytesIO

import pytest

from config.requests.content_types import read_content_type
from config.wsgi import application

CODECS = ("base64", "idna", "undefined", "unicode_escape", "utf-7", "utf-16", "latin-1", "no such")
FORM = b'--x\r\nContent-Disposition: form-data; name="username"\r\n\r\n\\ud800\r\n--x--\r\n'


def send(path: str, kind: str, body: bytes = b"", *, query: str = "") -> tuple[int, str]:
    """Send a request through the whole application and return its status and its text."""
    found: list[str] = []
    environ = {
        "REQUEST_METHOD": "POST" if body else "GET",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_TYPE": kind,
        "CONTENT_LENGTH": str(len(body)),
        "SERVER_NAME": "testserver",
        "SERVER_PORT": "80",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.input": BytesIO(body),
        "wsgi.url_scheme": "http",
    }
    answer = application(environ, lambda status, *_: found.append(status))
    return int(found[0][:3]), b"".join(answer).decode()


@pytest.mark.django_db
@pytest.mark.parametrize("codec", CODECS)
def test_addresses_are_read_as_utf_8_and_other_forms_are_refused(codec: str) -> None:
    query = "next=/%C3%A9%5Cud800%FF&q=x"
    for kind in (f"text/plain; charset={codec}", f"x/y; charset*=utf-8''{codec}"):
        status, page = send("/sign-in/", kind, query=query)
        assert status == 200 and 'value="/é\\ud800\ufffd"' in page, kind
        assert send("/v1/docs", kind, query=query)[0] == 200, kind
    for kind, body in (
        ("multipart/form-data; boundary=x", FORM),
        ("application/x-www-form-urlencoded", b"username=%5C"),
    ):
        status, page = send("/sign-in/", f"{kind}; charset={codec}", body)
        assert status == 400 and "Nothing was changed" in page, kind


@pytest.mark.django_db
def test_the_api_says_what_is_wrong_with_a_form_in_another_encoding() -> None:
    status, text = send("/v1/tasks", "application/x-www-form-urlencoded; charset=utf-7", b"a=b")
    assert status == 400 and "not in UTF-8" in text and "no operation" not in text


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["a/b; x*=nope'en'%41", "a/b; x*=''", ";", "; charset", "a/b;;;="])
def test_content_types_that_can_not_be_read_count_as_none(kind: str) -> None:
    assert send("/sign-in/", kind)[0] == 200
    assert send("/v1/docs", kind)[0] == 200


def test_the_rest_stays_as_it_is() -> None:
    for kind in ("multipart/form-data; boundary=x", "text/markdown; charset=utf-8; variant=GFM"):
        assert read_content_type(kind) == kind
    named = 'multipart/form-data; charset=utf-7; boundary="a b"'
    assert read_content_type(named) == 'multipart/form-data; charset=latin-1; boundary="a b"'
