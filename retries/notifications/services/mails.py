"""Send mails with a text and an HTML part, in one thread for each escalation.

apprise connects to the mail server; it would make the text part from the HTML.
"""

import email.policy
from email.message import EmailMessage
from email.utils import format_datetime, formataddr, make_msgid
from typing import Any

from django.conf import settings
from django.utils import timezone

from retries.notifications.messages.wording import Message, one_line
from retries.notifications.services.mail_html import render_html

# The standard policy begins many a long subject on a line of its own, after an empty one.
ONE_LINE = email.policy.SMTP.clone(max_line_length=998)
# the root of a thread of mails; no mail has this id, and mail programs need none
THREAD_ID = "<{thread}@threads.tenfour>"


def is_mail(plugin: Any) -> bool:
    return isinstance(getattr(plugin, "smtp_host", None), str)


def is_plain_mail(plugin: Any) -> bool:
    """Return whether a plugin sends mails by SMTP as they are: neither signed nor encrypted."""
    if not is_mail(plugin):
        return False
    from apprise.plugins.email.base import PGP_MODE_DEFAULT, NotifyEmail

    return type(plugin).send is NotifyEmail.send and plugin.pgp_mode == PGP_MODE_DEFAULT


def send(plugin: Any, message: Message) -> bool:
    """Send a mail to each of a channel's addresses; return whether all were accepted."""
    from apprise.plugins.email.smtp import AppriseSMTPController

    with AppriseSMTPController(
        host=plugin.smtp_host,
        port=plugin.port,
        secure_mode=plugin.secure_mode,
        user=plugin.user,
        password=plugin.password,
        verify_certificate=plugin.verify_certificate,
        socket_connect_timeout=plugin.socket_connect_timeout,
    ) as smtp:
        sent = [
            smtp.sendmail(
                plugin.from_addr[1],
                [to[1], *plugin.cc, *plugin.bcc],
                build_mail(plugin, message, to=to).as_string(),
            )
            for to in plugin.targets
        ]
    return bool(sent) and all(sent)


def build_mail(plugin: Any, message: Message, *, to: tuple[Any, str]) -> EmailMessage:
    """Return a mail; a reply has the subject of the first message and refers to the same root."""
    subject = one_line(f"Re: {message.reply_to}" if message.reply_to else message.subject)
    mail = EmailMessage(policy=ONE_LINE if subject.isascii() else email.policy.SMTP)
    mail["Subject"] = subject
    mail["From"] = formataddr((plugin.from_addr[0] or "Tenfour", plugin.from_addr[1]))
    mail["To"] = formataddr((to[0] or "", to[1]))
    if plugin.cc:
        mail["Cc"] = ", ".join(sorted(plugin.cc))
    if plugin.reply_to:
        mail["Reply-To"] = ", ".join(sorted(plugin.reply_to))
    mail["Date"] = format_datetime(timezone.now())
    mail["Message-ID"] = make_msgid(domain=plugin.from_addr[1].rpartition("@")[2])
    mail["Auto-Submitted"] = "auto-generated"
    mail["List-Unsubscribe"] = f"<{settings.LINK_URL}/settings/notifications/>"
    if message.escalation:
        mail["X-Tenfour-Escalation"] = message.escalation
    if message.thread:
        root = THREAD_ID.format(thread=message.thread)
        mail["References"] = mail["In-Reply-To"] = root
    mail.set_content(message.text)
    mail.add_alternative(render_html(message), subtype="html")
    return mail
