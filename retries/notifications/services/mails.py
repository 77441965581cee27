"""Send mails by apprise, in one thread for each escalation.

apprise makes the text part from the HTML part.
"""

import ast
import re
from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.utils.html import escape

from retries.notifications.messages.wording import Message, one_line

WORD = re.compile(r"\S+")
# the root of a thread of mails; no mail has this id, and mail programs need none
THREAD_ID = "<{thread}@threads.tenfour>"
PAGE = """<!doctype html>
<html lang="en"><body style="margin:0;padding:24px 16px;color:#1c1917">
<pre style="max-width:640px;margin:0;white-space:pre-wrap;font:15px/1.5 sans-serif">{text}</pre>
</body></html>
"""


def is_mail(plugin: Any) -> bool:
    return isinstance(getattr(plugin, "smtp_host", None), str)


def send(plugin: Any, message: Message) -> bool:
    """Send a mail to each of a channel's addresses; return whether all were accepted."""
    plugin.headers |= list_headers(message)
    # a reply has the subject of the first message and refers to the same root
    subject = one_line(f"Re: {message.reply_to}" if message.reply_to else message.subject)
    return bool(plugin.notify(body=render_html(message.text), title=subject, body_format="html"))


def leave_out(plugin: Any, taken: Collection[str]) -> None:
    # These addresses accepted the mail at an earlier try; no one gets it twice.
    plugin.targets = [each for each in plugin.targets if each[1] not in taken]


def describe_cause(text: str) -> str:
    """Return a server's words on the addresses that it refused, or the text as it is.

    >>> describe_cause("{'a@example.org': (550, b'5.1.1 No such user')}")
    '550 5.1.1 No such user'
    """
    try:
        refusals = ast.literal_eval(text).values()
        told = [f"{code} {why.decode(errors='replace')}" for code, why in refusals]
        return ", ".join(dict.fromkeys(told))
    except (ValueError, SyntaxError, AttributeError, TypeError):
        return text


def list_headers(message: Message) -> dict[str, str]:
    headers = {
        "Auto-Submitted": "auto-generated",
        "List-Unsubscribe": f"<{settings.LINK_URL}/settings/notifications/>",
    }
    if message.escalation:
        headers["X-Tenfour-Escalation"] = message.escalation
    if message.thread:
        headers["References"] = headers["In-Reply-To"] = THREAD_ID.format(thread=message.thread)
    return headers


def render_html(text: str) -> str:
    # The page fetches nothing, and links only to Tenfour's own addresses.
    return PAGE.format(text=WORD.sub(lambda found: link_own(found[0]), escape(text)))


def link_own(word: str) -> str:
    is_own = word.startswith(f"{escape(settings.LINK_URL)}/")
    return f'<a href="{word}">{word}</a>' if is_own else word
