"""Post to ntfy: messages of one thread have one sequence id, so each updates the notification."""

import base64
import json
from typing import Any
from urllib.parse import parse_qsl

from retries.notifications.addresses import http_post
from retries.notifications.addresses.http_post import Answer
from retries.notifications.messages.wording import Message

# parameters of an address that ntfy takes as headers
OPTIONS = ("tags", "email", "delay", "click", "actions", "icon")


def is_ntfy(plugin: Any) -> bool:
    return getattr(plugin, "service_name", "") == "ntfy"


def send(plugin: Any, url: str, message: Message) -> Answer:
    # A server before 2.16 shows an update as a new message.
    answer = Answer(None, error="The address names no topic.")
    for topic in plugin.topics:
        body = {"topic": topic, "title": message.subject, "message": message.text}
        headers = headers_of(plugin, url)
        if message.url and "X-Click" not in headers:
            body["click"] = message.url
        if message.thread:
            body["sequence_id"] = headers["X-Sequence-ID"] = message.thread
        sent = json.dumps(body).encode()
        answer = http_post.post(server_of(plugin), sent, headers, any_port=True)
        if not answer.succeeded:
            return answer
    return answer


def server_of(plugin: Any) -> str:
    if plugin.mode == "cloud":
        return f"{plugin.cloud_notify_url}/"
    port = f":{plugin.port}" if plugin.port else ""
    return f"{'https' if plugin.secure else 'http'}://{plugin.host}{port}/"


def headers_of(plugin: Any, url: str) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": "Tenfour"}
    if plugin.auth == "token" and plugin.token:
        headers["Authorization"] = f"Bearer {plugin.token}"
    elif plugin.user:
        pair = f"{plugin.user}:{plugin.password or ''}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    given = {name.lower(): value for name, value in parse_qsl(url.partition("?")[2])}
    for name in OPTIONS:
        if value := given.get(name):
            headers[f"X-{name.title()}"] = value.encode("ascii", "ignore").decode()
    if str(plugin.priority) != "default":
        headers["X-Priority"] = str(plugin.priority)
    return headers
