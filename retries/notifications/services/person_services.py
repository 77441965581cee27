"""Reach people by the services that apprise knows: mail, Slack, ntfy and many more.

apprise is imported at the first use, because most processes never need it.
"""

import ast
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from ledger.errors import Invalid
from ledger.values.text import truncate
from retries.notifications.addresses import checks as addresses
from retries.notifications.addresses.checks import ForbiddenAddress
from retries.notifications.addresses.guard import Connections, guard_connections, refuse_files
from retries.notifications.addresses.http_post import (
    DEADLINE_SECONDS,
    ERROR_LENGTH,
    RESPONSE_BYTES,
    Answer,
    readable,
)
from retries.notifications.addresses.shortening import shorten_address
from retries.notifications.messages.wording import Message
from retries.notifications.services import mails, ntfy_posts, slack_posts
from retries.notifications.services.plugins import find_plugin, index_schemes, make_plugin

# services of the computer that Tenfour runs on, not of a person
LOCAL = {
    "dbus", "gio", "glib", "gnome", "kde", "macosx", "qt", "syslog", "windows",
}  # fmt: skip
COMMON = ("mailto", "mailtos", "slack", "ntfy", "ntfys", "discord", "tgram", "pover")


@dataclass(frozen=True, slots=True)
class Service:
    """The part of a channel's address that a page shows."""

    name: str
    shown: str


def read_service(url: str, *, pointer: str = "/url") -> Service:
    """Return the service of an apprise URL; raise Invalid with the reason if it can't be used."""
    check_scheme(url, pointer=pointer)
    plugin = make_plugin(url, pointer=pointer)
    if plugin is None:
        scheme = url.partition("://")[0].lower()
        raise Invalid(
            pointer,
            f"The parts of this {scheme}:// address are not what the service needs. "
            f"See https://appriseit.com/services/ for its form.",
        )
    check_host(plugin, pointer=pointer)
    return Service(name_of(plugin), shorten_address(str(plugin.url(privacy=True))))


def check_scheme(url: str, *, pointer: str) -> None:
    scheme, found, _ = url.partition("://")
    scheme = scheme.strip().lower()
    if not found:
        raise Invalid(pointer, f"The address must begin with a scheme: {described(COMMON)}.")
    if scheme in LOCAL:
        raise Invalid(pointer, f"{scheme}:// reaches only the computer that Tenfour runs on.")
    if scheme in ("http", "https"):
        raise Invalid(
            pointer, "This is the address of a webhook. Create a webhook, or use json:// for one."
        )
    if find_plugin(scheme) is None:
        near = get_close_matches(scheme, index_schemes().keys() - LOCAL, n=3) or COMMON
        raise Invalid(
            pointer,
            f"'{truncate(scheme, 40)}' is not a known scheme. Use one of: {described(near)}.",
        )


def described(schemes: Any) -> str:
    return ", ".join(f"{each}://" for each in schemes)


def check_host(plugin: Any, *, pointer: str) -> None:
    """Raise Invalid if the service's own host has an address that is not allowed."""
    # A host that can't be resolved now may be resolved later; each connection is checked anyway.
    host = getattr(plugin, "smtp_host", None)
    if not host and "host" in plugin.template_tokens:
        host = plugin.host
    if not isinstance(host, str) or not host:
        return
    port = plugin.port or addresses.DEFAULT_PORTS["https" if plugin.secure else "http"]
    try:
        for address in addresses.resolve(host, port):
            addresses.check_address(address, host=host, port=port)
    except ForbiddenAddress as error:
        raise Invalid(pointer, str(error)) from error
    except OSError:
        return


def name_of(plugin: Any) -> str:
    name = str(plugin.service_name or "Service")
    if slack_posts.is_slack_app(plugin):
        return "Slack app"
    return "Email" if mails.is_mail(plugin) else truncate(name, 64)


def send(url: str, message: Message, *, root: str = "", taken: str = "") -> Answer:
    """Send a message and return how it ended; never raises for a service's errors.

    `root` is the receipt of the message that this one replies to, if the service gave one. `taken`
    is the receipt of an earlier try: what the service already has.
    """
    try:
        plugin = make_plugin(url)
    except Invalid as error:
        return Answer(None, error=f"{error.detail} Enter the channel's address again.")
    if plugin is None:
        return Answer(None, error="The address is not valid any more.")
    if slack_posts.is_slack_app(plugin):
        return slack_posts.send(plugin, message, root=root, taken=taken)
    if ntfy_posts.is_ntfy(plugin):
        return ntfy_posts.send(plugin, url, message)
    if mails.is_mail(plugin):
        mails.leave_out(plugin, taken.split())
    started = time.monotonic()
    connections = Connections()
    pool = ThreadPoolExecutor(1, thread_name_prefix="notify")
    try:
        answer = pool.submit(send_guarded, plugin, message, connections).result(DEADLINE_SECONDS)
    except Late:
        connections.cut()
        answer = Answer(None, error=f"no answer within {DEADLINE_SECONDS} s")
    finally:
        pool.shutdown(wait=False)
    took = round((time.monotonic() - started) * 1000)
    receipt = " ".join([*taken.split(), *answer.receipt.split()])
    return replace(answer, error=answer.error[:ERROR_LENGTH], latency_ms=took, receipt=receipt)


def send_guarded(plugin: Any, message: Message, connections: Connections) -> Answer:
    """Send a message by a plugin, which reaches public addresses only and opens no files."""
    with guard_connections(connections), refuse_files(), listen() as heard:
        try:
            if mails.is_mail(plugin):
                sent = mails.send(plugin, message)
            else:
                sent = plugin.notify(body=message.text, title=message.subject, body_format="text")
        except Exception as error:  # a plugin may raise anything
            return Answer(None, error=f"{type(error).__name__}: {error}")
    if sent:
        code = None if mails.is_mail(plugin) else 200
        return Answer(code, text=heard.response or "accepted")
    if connections.refusal:
        return Answer(None, error=connections.refusal)
    # a service may refuse a message with the status 200
    code = heard.code if heard.code and heard.code >= 300 else None
    reason = heard.error or "the service refused it"
    if mails.is_mail(plugin) and heard.cause:  # other services' causes may have an address
        reason = f"{reason.rstrip('.')}: {mails.describe_cause(heard.cause)}"
    receipt = " ".join(heard.accepted)
    return Answer(code, text=heard.response, error=reason, receipt=receipt)


# ---- apprise says why it failed only in its log


class Listener(logging.Handler):
    """Collects what apprise logs in one thread."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.thread = threading.get_ident()
        self.error, self.cause, self.response = "", "", ""
        self.code: int | None = None
        self.accepted: list[str] = []  # the addresses of a mail

    def __enter__(self) -> "Listener":
        logger = logging.getLogger("apprise")
        logger.propagate = False  # its lines may name addresses
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("apprise").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread != self.thread:
            return
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            self.error = self.error or " ".join(text.split())
            self.code = self.code or code_in(text)
        elif text.startswith("Sent Email to "):
            self.accepted.append(text.split()[-1])
        elif text.startswith("Socket Exception: "):
            self.cause = self.cause or " ".join(text.split()[2:])
        elif text.startswith("Response Details:"):
            self.response = readable(unquoted(text.partition(":")[2].strip())[:RESPONSE_BYTES])


def unquoted(text: str) -> bytes:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text.encode()
    return value if isinstance(value, bytes) else str(value).encode()


def listen() -> Listener:
    return Listener()


def code_in(text: str) -> int | None:
    """Return the status that a line of apprise's log names.

    >>> code_in("Failed to send Slack notification: Not Found, error=404.")
    404
    """
    digits = text.rpartition("error=")[2][:3] if "error=" in text else ""
    return int(digits) if digits.isdecimal() and 100 <= int(digits) <= 599 else None
