"""Receivers of notifications: a real HTTP server whose answers a test chooses, the clock, and a
question to notify of."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from django.utils import timezone

from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Project
from retries.models import Channel, Escalation
from retries.models.notification_channel import ChannelKind
from retries.notifications import channels, tick
from retries.notifications.channels import ChannelSpec, Created
from retries.notifications.deliveries import sending
from tests.journal_partitions import settle
from tests.retries.moves import attempt_of, claim, fail, make_task

MARA = Actor("user", "7", "mara")


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


Answering = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Receiver:
    """What has arrived, and how the next request is answered: a status, or a function."""

    port: int
    received: list[Received] = field(default_factory=list)
    answer: int | Answering = 200
    text: bytes = b"thank you"
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def allowed(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def receive() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            named = {name.lower(): value for name, value in self.headers.items()}
            receiver.received.append(Received(self.path, named, body))
            if callable(receiver.answer):
                receiver.answer(self)
                return
            self.send_response(receiver.answer)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(receiver.text)))
            self.end_headers()
            self.wfile.write(receiver.text)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass  # a sender that leaves early is expected

    with Server(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(server.server_address[1])
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield receiver
        server.shutdown()


def make_webhook(
    receiver: Receiver, *, project: Project | None, name: str = "mirror", **more: Any
) -> Created:
    spec = ChannelSpec(kind=ChannelKind.WEBHOOK, name=name, url=receiver.url, **more)
    return channels.create_channel(spec, project=project, stamp=Stamp(MARA))


def make_person_channel(
    url: str, *, project: Project | None, name: str = "on-call", **more: Any
) -> Channel:
    spec = ChannelSpec(kind=ChannelKind.PERSON, name=name, url=url, **more)
    return channels.create_channel(spec, project=project, stamp=Stamp(SYSTEM)).channel


def run_clock(now: datetime | None = None) -> dict[str, Any]:
    """Read the journal and send what is due, as the clock and a worker do."""
    settle()
    did = tick.process_due(now=now or timezone.now())
    for channel_id in sending.due_channels(timezone.now()):
        while sending.send_to_channel(channel_id):
            pass
    return did


def ntfy(receiver: Receiver, topic: str = "oncall") -> str:
    return f"ntfy://127.0.0.1:{receiver.port}/{topic}"


def told(receiver: Receiver) -> list[tuple[str, str]]:
    """Return the topics and titles of the messages that have arrived, and forget them."""
    found = [(each.json["topic"], each.json["title"]) for each in receiver.received]
    receiver.received.clear()
    return found


def escalate(
    agent: Agent, title: str = "Rename the column", *, message: str = "KeyError: total\nsecret text"
) -> Escalation:
    """Let a task fail until a person is asked."""
    now = timezone.now()
    task = make_task(agent, now=now, title=title, max_attempts=1, on_exhausted="escalate")
    fail(
        agent,
        attempt_of(claim(agent, now=now)),
        now=now,
        type="verification_failed",
        message=message,
    )
    return Escalation.objects.get(task=task)
