"""Read the content type of requests (pure)."""

from django.utils.http import parse_header_parameters

UTF_8 = {"utf-8", "utf8", "us-ascii", "ascii"}


def read_content_type(text: str) -> str:
    """Return a content type that Django can read; it fails for some, before any middleware runs.

    It decodes addresses with the codec that is named there, which may be any of Python's, such as
    base64. `config.requests.middleware.Utf8Only` reads UTF-8 all the same, but refuses forms.

    >>> read_content_type("text/plain; charset=UTF-8")
    'text/plain; charset=UTF-8'
    >>> read_content_type("text/plain; charset=idna")
    'text/plain; charset=latin-1'
    """
    kind = text.partition(";")[0]
    try:
        _, params = parse_header_parameters(text)
    except ValueError:
        return kind
    if params.get("charset", "utf-8").lower() in UTF_8:
        return text
    boundary = params.get("boundary", "").replace('"', "")
    return f"{kind}; charset=latin-1" + (f'; boundary="{boundary}"' if boundary else "")
