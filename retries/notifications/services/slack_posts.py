"""Post to Slack with an app's bot token: replies go into a thread, and the end edits its first.

A webhook of Slack can do neither; apprise sends to those.
"""

import json
import re
from dataclasses import replace
from typing import Any

from retries.notifications.addresses import http_post
from retries.notifications.addresses.http_post import Answer
from retries.notifications.messages.wording import Message

# characters in a block of Slack
TEXT_LENGTH = 2900
# The answer begins with these; its rest repeats the message, and only its beginning is read.
SUCCEEDED = re.compile(r'^\s*\{\s*"ok"\s*:\s*true\b')
VALUE = r'"{}"\s*:\s*"([^"\\]+)"'
# the first message was deleted: the reply is posted by itself
GONE = {"message_not_found", "thread_not_found", "cant_update_message", "edit_window_closed"}


def is_slack_app(plugin: Any) -> bool:
    """Return whether a plugin posts with a bot token, to channels that it names."""
    return (
        getattr(plugin, "service_name", "") == "Slack"
        and bool(getattr(plugin, "access_token", None))
        and bool(plugin.channels)
        and not any(is_mail(each) for each in plugin.channels)
    )


def is_mail(target: str | None) -> bool:
    return not target or "@" in target[1:]


def send(plugin: Any, message: Message, *, root: str, taken: str = "") -> Answer:
    """Post a message to each channel, or reply to the messages that `root` names.

    `taken` is an earlier try's receipt: its places already have the message.
    """
    receipts = taken.split()
    answer = Answer(None, error="The address names no channel.")
    places = root.split() or [address_of(each) for each in plugin.channels]
    for place in places[len(receipts) :]:
        answer = post_to(plugin, place, message)
        if not answer.succeeded:
            return replace(answer, receipt=" ".join(receipts))
        receipts.append(answer.receipt)
    return replace(answer, receipt=" ".join(receipts))


def address_of(target: str) -> str:
    # An id is written after a plus.
    if target.startswith("+"):
        return target[1:].partition(":")[0]
    return target if target.startswith(("#", "@")) else f"#{target}"


def post_to(plugin: Any, place: str, message: Message) -> Answer:
    """Post to a channel, or to the thread of a message as `CHANNEL/TIMESTAMP`."""
    channel, _, first = place.partition("/")
    if not first:
        return call(plugin, "chat.postMessage", {"channel": channel, **body_of(message)})
    if message.closes:
        edited = call(plugin, "chat.update", {"channel": channel, "ts": first, **body_of(message)})
        if not edited.succeeded and edited.error.rpartition(" ")[2] not in GONE:
            return edited
    reply = {"channel": channel, "thread_ts": first, **body_of(message)}
    answer = call(plugin, "chat.postMessage", reply)
    if not answer.succeeded and answer.error.rpartition(" ")[2] in GONE:
        answer = call(plugin, "chat.postMessage", {"channel": channel, **body_of(message)})
    return answer


def call(plugin: Any, method: str, body: dict[str, Any]) -> Answer:
    # Slack refuses a call with the status 200 and the name of an error.
    headers = {
        "Authorization": f"Bearer {plugin.access_token}",
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "Tenfour",
    }
    answer = http_post.post(plugin.api_url.format(method), json.dumps(body).encode(), headers)
    if not answer.succeeded:
        return answer
    if not SUCCEEDED.match(answer.text):
        error = value_in(answer.text, "error") or "its answer can't be read"
        return replace(answer, code=None, error=f"Slack refused {method}: {error}")
    receipt = f"{value_in(answer.text, 'channel')}/{value_in(answer.text, 'ts')}"
    return replace(answer, receipt=receipt)


def value_in(text: str, name: str) -> str:
    found = re.search(VALUE.format(name), text)
    return found[1] if found else ""


SETTINGS = {"mrkdwn": False, "link_names": False, "unfurl_links": False, "unfurl_media": False}


def body_of(message: Message) -> dict[str, Any]:
    # In plain text, no markup, mention, or link of an agent works.
    text = {"type": "plain_text", "text": message.text[:TEXT_LENGTH], "emoji": False}
    blocks: list[dict[str, Any]] = [{"type": "section", "text": text}]
    if message.url:
        link = {"type": "mrkdwn", "text": f"<{message.url}|Open>"}
        blocks.append({"type": "section", "text": link})
    return {"text": escape(message.subject), "blocks": blocks, **SETTINGS}


def escape(text: str) -> str:
    """Return text in which Slack finds no mention and no link.

    >>> escape("<!channel> & <https://example.com|here>")
    '&lt;!channel&gt; &amp; &lt;https://example.com|here&gt;'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
