"""The server's address and the token, from arguments or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tenfour.http.problems import TenfourError

if TYPE_CHECKING:
    from tenfour.models import Me


class NotConfigured(TenfourError):
    """The URL or the token is missing or malformed."""


@dataclass(frozen=True)
class Settings:
    url: str
    token: str = field(repr=False)

    @property
    def is_local(self) -> bool:
        """Return whether the server is on this machine, so that no proxy is used."""
        return urlsplit(self.url).hostname in {"localhost", "127.0.0.1", "::1"}


def read(
    url: str | None = None, token: str | None = None, *, environ: Mapping[str, str] | None = None
) -> Settings:
    """Return settings from arguments, else from TENFOUR_URL, TENFOUR_TOKEN or TENFOUR_TOKEN_FILE.

    What is missing comes from `tenfour init`, for the folder that this process is in. Raises
    NotConfigured if something is missing or malformed.
    """
    env = os.environ if environ is None else environ
    address = url or env.get("TENFOUR_URL", "")
    secret = token or env.get("TENFOUR_TOKEN", "") or _token_from_file(env)
    if environ is None and not (address.strip() and secret.strip()):
        address, secret = _complete(address, secret)
    return Settings(url=tidy_url(address), token=_tidy_token(secret))


def _complete(address: str, secret: str) -> tuple[str, str]:
    """Return both with what `tenfour init` stored; a token goes only to its own server."""
    from pathlib import Path

    from tenfour.setup.connections import find_connection

    known = find_connection(Path.cwd(), os.environ)
    if known is None or (address.strip() and tidy_url(address) != known.url):
        return address, secret
    return address or known.url, secret or known.token


def tidy_url(url: str) -> str:
    """Return the URL without trailing slashes and `/v1`; raises NotConfigured if it is no URL."""
    if not url.strip():
        raise _missing(
            "TENFOUR_URL is not set.", "For example: export TENFOUR_URL=http://127.0.0.1:8000"
        )
    tidy = url.strip().rstrip("/").removesuffix("/v1").rstrip("/")
    if not _is_http(tidy):
        raise _missing(
            f"TENFOUR_URL is not a web address: {url.strip()}",
            "It must start with http:// or https://, for example http://127.0.0.1:8000",
        )
    return tidy


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Reading the port validates it.
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _token_from_file(env: Mapping[str, str]) -> str:
    name = env.get("TENFOUR_TOKEN_FILE", "")
    if not name:
        return ""
    try:
        with open(name, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise _missing(
            f"TENFOUR_TOKEN_FILE cannot be read: {name}: {reason}.",
            "It must be a file that contains only the token.",
        ) from error


def _tidy_token(token: str) -> str:
    tidy = token.strip()
    if not tidy:
        raise _missing(
            "TENFOUR_TOKEN is not set.",
            "Create one on the server: .venv/bin/python manage.py token --kind agent --agent NAME",
        )
    if not tidy.isascii() or not tidy.isprintable() or " " in tidy:
        raise _missing(
            "TENFOUR_TOKEN contains characters that no token has.",
            "A token is one word that starts with tenfour_. Copy it again.",
        )
    return tidy


def check_agent(me: Me, name: str) -> None:
    """Raise NotConfigured if the token belongs to another agent, or to none."""
    owner = me.agent
    if owner != name:
        known = f"the agent {owner}" if owner else f"no agent: its kind is {me.kind}"
        raise _missing(
            f"TENFOUR_TOKEN belongs to {known}.",
            f"Create one: .venv/bin/python manage.py token --kind agent --agent {name}",
        )


def _missing(detail: str, hint: str) -> NotConfigured:
    return NotConfigured(detail, code="not_configured", title="Not configured", hint=hint)
