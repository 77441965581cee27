"""Channels for people against real servers: mail by SMTP, and Slack and ntfy by HTTP."""

import email
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from email import policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone
from django.utils.html import strip_tags

from ledger.journal import Stamp
from ledger.secrets import encryption
from retries.escalations import answering, assignment
from retries.escalations.choices import Choice
from retries.models import Channel, Delivery, Escalation, NotificationRule
from retries.notifications import channels
from retries.notifications.deliveries import redelivery, trials
from retries.notifications.messages.wording import Message, read_message
from retries.notifications.rules import editing as rules
from retries.notifications.services import person_services
from retries.states import Answer
from tests.factories import make_agent, make_project
from tests.retries.failures.test_suggestions import MISSING, fixed
from tests.retries.notifications.receivers import (
    MARA,
    Received,
    Receiver,
    make_person_channel,
    run_clock,
)
from tests.retries.notifications.test_rules import age, escalate
from tests.serving import ROOT
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)
HOSTILE = "<!channel> *free* <https://evil.example|click>\r\nBcc: all@example.com"


class Mailbox:
    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.refusal = ""
        self.refused = "@"  # the addresses that a refusal is for

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        envelope.rcpt_tos.append(address)
        return self.refusal if self.refusal and self.refused in address else "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(email.message_from_bytes(envelope.content, policy=policy.default))  # type: ignore[arg-type]
        return "250 OK"


class MailServer(Controller):
    """A mail server on a free port."""

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Mailbox, str]]:
    """A mail server, and the address of a channel that uses it."""
    box = Mailbox()
    controller = MailServer(box, hostname="127.0.0.1", port=0, ready_timeout=PATIENCE_S)
    logging.getLogger("mail.log").setLevel(logging.WARNING)
    controller.start()
    try:
        port = controller.port
        monkeypatch.setitem(settings.TENFOUR, "WEBHOOK_ALLOW", [f"127.0.0.1:{port}"])
        yield box, f"mailto://127.0.0.1:{port}?from=tenfour@example.com&to=oncall@example.com"
    finally:
        controller.stop()


def test_an_escalation_is_one_thread_of_mails(mailbox: tuple[Mailbox, str]) -> None:
    """The question, a reminder and the answer share a subject and refer to the same root."""
    box, url = mailbox
    project = make_project()
    channel = make_person_channel(url, project=project)
    assert channel.service == "Email" and "oncall" in channel.shown_address
    (rule,) = NotificationRule.objects.filter(conditions=["escalation"])
    rules.update_rule(rule.pk, version=None, stamp=Stamp(MARA), repeat_s=600)
    asked = escalate(make_agent(), HOSTILE)
    run_clock()
    age(700)
    run_clock()
    answering.answer(
        asked.pk,
        Choice(Answer.SKIP),
        channel="api",
        among=Escalation.objects.all(),
        stamp=Stamp(MARA),
    )
    run_clock()
    first, reminder, answer = box.mails
    subject = str(first["Subject"])
    assert subject.startswith("[default] Needs you: <!channel> *free*")
    assert [str(mail["Subject"]) for mail in (reminder, answer)] == [f"Re: {subject}"] * 2
    roots = {str(mail["References"]) for mail in box.mails}
    assert len(roots) == 1 and roots.copy().pop().endswith("@threads.tenfour>")
    assert roots == {str(mail["In-Reply-To"]) for mail in box.mails}
    assert first["Auto-Submitted"] == "auto-generated" and first["Bcc"] is None
    assert str(first["To"]) == "oncall@example.com"
    assert first["X-Tenfour-Escalation"] == str(asked.pk)
    assert str(first["List-Unsubscribe"]).endswith("/settings/notifications/>")
    page = first.get_body(("html",)).get_content()  # type: ignore[union-attr]
    assert f'href="{settings.LINK_URL}/escalations/{asked.pk}/"' in page
    assert set(re.findall(r'href="([^"]*)"', page)) == set(
        re.findall(rf"{re.escape(settings.LINK_URL)}/\S*", strip_tags(page))
    ), "an agent's words are no links"
    assert "&lt;!channel&gt;" in page and "<!channel>" not in page
    assert not re.search(r"<(img|link|script|style)|url\(", page), "nothing is fetched"
    text = first.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert f"/escalations/{asked.pk}/" in text and "tenfour esc resolve" in text
    assert "Still open after" in reminder.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert "mara answered: skip" in answer.get_body(("plain",)).get_content()  # type: ignore[union-attr]


def test_a_mail_that_is_not_taken_says_why(mailbox: tuple[Mailbox, str]) -> None:
    box, url = mailbox
    box.refusal = "550 No such user here"
    refused = person_services.send(url, Message("a", "b"))
    assert not refused.succeeded and "550" in refused.error and "No such user" in refused.error
    box.refusal = ""
    assert person_services.send(url, Message("a", "b")).succeeded and len(box.mails) == 1


def test_a_retry_reaches_only_the_addresses_that_refused_the_mail(
    mailbox: tuple[Mailbox, str],
) -> None:
    """Until a delivery is redelivered; one address more or less must not flood the others."""
    box, url = mailbox
    channel = make_person_channel(f"{url},boss@example.com", project=make_project())
    box.refusal, box.refused = "550 No such user here", "boss"
    _, told = trials.send_test(channel, stamp=Stamp(MARA))
    assert told.error == 'Sending email to "boss@example.com" failed: 550 No such user here'
    box.mails.clear()
    escalate(make_agent(), "Stuck")
    run_clock()
    for refusal in (box.refusal, box.refusal, ""):
        assert [str(mail["To"]) for mail in box.mails] == ["oncall@example.com"]
        box.refusal = refusal
        Delivery.objects.exclude(next_try_at=None).update(next_try_at=timezone.now())
        Channel.objects.update(resume_at=None)
        run_clock()
    assert [str(mail["To"]) for mail in box.mails[1:]] == ["boss@example.com"]
    redelivery.redeliver_range(
        channel, Delivery.objects.filter(state="delivered"), now=timezone.now()
    )
    run_clock()
    assert len(box.mails) == 4


def test_a_mail_says_what_helps_to_answer(mailbox: tuple[Mailbox, str]) -> None:
    """The likely cause, the fix that worked, and the answers, whose links only open a page."""
    box, url = mailbox
    agent, before = make_agent(), timezone.now() - timedelta(days=1)
    for number, works in enumerate((True, True, False)):
        fixed(agent, "Run <b>npm ci</b>", works=works, now=before + number * timedelta(hours=1))
    channel = make_person_channel(url, project=agent.project, include_details=True)
    asked = escalate(agent, message=MISSING)
    run_clock()
    page, text = parts_of(box.mails[0])
    found = " ".join(strip_tags(page).split())
    cause = "uuid is not installed where the command runs. (known error)"
    at = f"{settings.LINK_URL}/escalations/{asked.pk}/"
    names = ("Send fix and retry", "Retry (1 more attempt)", "Skip", "Abort")
    forms = zip(names, ("#fix", *["#other-answers"] * 3), strict=True)
    answers = "\n".join(["Your answers:", *(f"- {name}: {at}{form}" for name, form in forms)])
    assert f"Likely cause: {cause}" in found
    assert "Worked before: “Run &lt;b&gt;npm ci&lt;/b&gt;”, 2 of 3 times" in found
    assert re.findall(r'href="([^"]*#[^"]*)"', page) == [f"{at}#fix", *[f"{at}#other-answers"] * 3]
    assert f"Likely cause: {cause}\nWorked before: “Run <b>npm ci</b>”, 2 of 3 times" in text
    assert answers in text
    assert "coder failed 1 of 1: max retries exceeded." in text
    # without details only Tenfour's own words are sent; a reminder has the same rows
    Channel.objects.filter(pk=channel.pk).update(include_details=False)
    rules.update_rule(
        NotificationRule.objects.get(conditions=["escalation"]).pk,
        version=None,
        stamp=Stamp(MARA),
        repeat_s=600,
    )
    asked = escalate(agent, "Store <!channel> invoices", message=MISSING)
    run_clock()
    age(700)
    run_clock()
    subject = "[default] Needs you: Store <!channel> invoices (coder, failed 1 of 1)"
    assert [str(mail["Subject"]) for mail in box.mails[-2:]] == [subject, f"Re: {subject}"]
    for mail in box.mails[-2:]:
        page, text = parts_of(mail)
        assert f"/escalations/{asked.pk}/" in text
        assert "Likely cause: Missing module (known error)" in text
        assert "Worked before: A fix, 2 of 3 times" in text and "npm" not in page + text
    # the remedy is the person's, in Tenfour's words alone (OPR-6)
    escalate(agent, message='secrets is forbidden: User "ci" cannot list resource "secrets"')
    run_clock()
    text = parts_of(box.mails[-1])[1]
    assert "For a person: Grant the agent's account this permission, then retry." in text
    # nothing is said where nothing is known
    escalate(agent, message="odd")
    run_clock()
    page, text = parts_of(box.mails[-1])
    assert "Likely cause" not in page + text and "Worked before" not in page + text
    assert "Your answers:\n- Send fix and retry: " in text


def parts_of(mail: EmailMessage) -> tuple[str, str]:
    """Return the HTML and the text of a mail."""
    page, text = mail.get_body(("html",)), mail.get_body(("plain",))
    assert page and text
    return page.get_content(), text.get_content().replace("\r\n", "\n")


def slack_answer(handler: BaseHTTPRequestHandler) -> None:
    """Answer as Slack's API does: with the status 200, and the message repeated at length."""
    shown = f"17000000{len(SLACK_SEEN):02}.000100"
    SLACK_SEEN.append(handler.path)
    body = {"ok": True, "channel": "C0AGENTS", "ts": shown, "message": {"text": "x" * 5000}}
    if handler.path.endswith("chat.update"):
        body = SLACK_EDITS.pop() if SLACK_EDITS else body
    raw = json.dumps(body).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(raw)))
    handler.end_headers()
    handler.wfile.write(raw)


def text_of(post: Received) -> str:
    """Return the text that a post to Slack shows."""
    text: str = post.json["blocks"][0]["text"]["text"]
    return text


SLACK_SEEN: list[str] = []
SLACK_EDITS: list[dict[str, Any]] = []
SLACK_APP = f"slack://xoxb-{'1' * 12}-{'2' * 12}-{'a' * 24}/#agents"


def test_an_escalation_is_one_thread_of_a_slack_app(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reminders and the answer are replies, and the answer replaces the first message."""
    from apprise.plugins.slack import NotifySlack

    monkeypatch.setattr(NotifySlack, "api_url", f"http://127.0.0.1:{receiver.port}/api/{{}}")
    receiver.answer = slack_answer
    SLACK_SEEN.clear()
    channel = make_person_channel(SLACK_APP, project=make_project(), include_details=True)
    assert (channel.service, channel.has_threads) == ("Slack app", True)
    (rule,) = NotificationRule.objects.filter(conditions=["escalation"])
    rules.update_rule(rule.pk, version=None, stamp=Stamp(MARA), repeat_s=600)
    for number, edit in enumerate((None, {"ok": False, "error": "message_not_found"})):
        if edit:
            SLACK_EDITS.append(edit)
        receiver.received.clear()
        asked = escalate(make_agent(f"coder-{number}"), HOSTILE)
        run_clock()
        (first,) = receiver.received
        root = f"17000000{len(SLACK_SEEN) - 1:02}.000100"
        assert first.headers["authorization"].startswith("Bearer xoxb-")
        assert (first.path, first.json["channel"]) == ("/api/chat.postMessage", "#agents")
        assert first.json["blocks"][0]["text"]["type"] == "plain_text"
        assert HOSTILE.split()[0] in first.json["blocks"][0]["text"]["text"]
        assert "<!channel>" not in first.json["text"] and "thread_ts" not in first.json
        linked = [each for each in first.json["blocks"] if "mrkdwn" in json.dumps(each)]
        assert [str(asked.pk) in json.dumps(each) for each in linked] == [True]
        age(700)
        run_clock()
        answer_by_skipping(asked)
        run_clock()
        reminder, *after = receiver.received[1:]
        assert reminder.json["thread_ts"] == root and "Still open" in text_of(reminder)
        assert [each.path.rpartition("/")[2] for each in after[:2]] == [
            "chat.update",
            "chat.postMessage",
        ]
        assert (after[0].json["ts"], after[0].json["channel"]) == (root, "C0AGENTS")
        assert after[0].json["text"].startswith("[default] Answered:")
        assert after[1].json["thread_ts"] == root and "mara answered" in text_of(after[1])
        assert len(after) == 2
    # a refusal comes with the status 200; its reason is shown, and the token is not
    receiver.answer, receiver.text = 200, b'{"ok":false,"error":"channel_not_found"}'
    refused = person_services.send(SLACK_APP, Message("a", "b"))
    assert refused.code is None and refused.error.endswith("chat.postMessage: channel_not_found")
    assert "xoxb" not in refused.error + refused.text


def test_an_escalation_is_one_notification_of_ntfy(receiver: Receiver) -> None:
    """All messages of a thread have its sequence id; options of the address are kept."""
    url = f"ntfy://user:pass@127.0.0.1:{receiver.port}/oncall?priority=high&tags=robot"
    make_person_channel(url, project=make_project())
    (rule,) = NotificationRule.objects.filter(conditions=["escalation"])
    rules.update_rule(rule.pk, version=None, stamp=Stamp(MARA), repeat_s=600)
    asked = escalate(make_agent(), "Rename the column")
    run_clock()
    age(700)
    run_clock()
    answer_by_skipping(asked)
    run_clock()
    titles = [each.json["title"] for each in receiver.received]
    assert len(titles) == 3 and "Answered" in titles[-1]
    assert len({each.headers["x-sequence-id"] for each in receiver.received}) == 1
    (first, *_) = receiver.received
    assert first.json["sequence_id"] == first.headers["x-sequence-id"]
    assert first.json["click"].endswith(f"/escalations/{asked.pk}/")
    assert (first.headers["x-priority"], first.headers["x-tags"]) == ("high", "robot")
    assert first.headers["authorization"].startswith("Basic ")


def test_a_service_without_threads_gets_no_message_about_a_reaction(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A webhook of Slack can't thread, so it hears of the question and of its end only."""
    from apprise.plugins.slack import NotifySlack

    monkeypatch.setattr(NotifySlack, "webhook_url", f"http://127.0.0.1:{receiver.port}/services")
    receiver.text = b"ok"
    hook = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#agents"
    channel = make_person_channel(hook, project=make_project())
    assert (channel.service, channel.has_threads) == ("Slack", False)
    asked = escalate(make_agent(), "Rename the column")
    run_clock()
    User.objects.create(username="mara", is_staff=True, is_superuser=True)
    assignment.assign(asked.pk, "mara", among=Escalation.objects.all(), stamp=Stamp(MARA))
    run_clock()
    assert len(receiver.received) == 1
    answer_by_skipping(asked)
    run_clock()
    assert len(receiver.received) == 2


def answer_by_skipping(asked: Escalation) -> None:
    answering.answer(
        asked.pk,
        Choice(Answer.SKIP),
        channel="api",
        among=Escalation.objects.all(),
        stamp=Stamp(MARA),
    )


def test_agents_words_are_text_in_every_service(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No mention, link or markup of an agent works; a service's refusal is a clear error."""
    from apprise.plugins.slack import NotifySlack

    monkeypatch.setattr(NotifySlack, "webhook_url", f"http://127.0.0.1:{receiver.port}/services")
    slack = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#agents"
    receiver.text = b"ok"
    assert person_services.send(slack, Message(HOSTILE, HOSTILE)).code == 200
    sent = receiver.received[0].body.decode()
    assert "<!channel>" not in sent and "<https://" not in sent and "&lt;!channel&gt;" in sent
    assert json.loads(sent)["mrkdwn"] is False
    ntfy = f"ntfy://127.0.0.1:{receiver.port}/oncall"
    assert person_services.send(ntfy, Message(HOSTILE, HOSTILE)).code == 200
    assert receiver.received[1].json["message"].startswith("<!channel>")
    receiver.answer, receiver.text = 403, b"invalid_token"
    refused = person_services.send(slack, Message("a", "b"))
    assert refused.code == 403 and refused.text == "invalid_token" and "Slack" in refused.error
    assert "TIiajkdnlazkcOXrIdevi7FQ" not in refused.error + refused.text


def test_a_message_that_an_earlier_version_stored_is_sent() -> None:
    stored = {"subject": "a", "text": "b", "thread": "c", "head": "a", "facts": [["x", "y"]]}
    assert read_message(stored) == Message("a", "b", thread="c")


def test_secrets_are_encrypted_and_survive_a_new_key(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No column holds a secret; an earlier key decrypts; without it the channel says so."""
    url = f"ntfy://user:hunter2secret@127.0.0.1:{receiver.port}/oncall"
    channel = make_person_channel(url, project=make_project())
    with connection.cursor() as cursor:
        cursor.execute("select to_jsonb(c)::text from retries_channel c")
        assert "hunter2secret" not in cursor.fetchone()[0]
    old = settings.SECRET_KEY
    monkeypatch.setattr(settings, "SECRET_KEY", "n" * 50)
    monkeypatch.setattr(settings, "SECRET_KEY_FALLBACKS", [old])
    assert channels.address_of(channel) == url
    assert channels.reencrypt_secrets() == 1 and channels.reencrypt_secrets() == 0
    monkeypatch.setattr(settings, "SECRET_KEY_FALLBACKS", [])
    channel.refresh_from_db()
    delivery, answer = trials.send_test(channel, stamp=Stamp(MARA, timezone.now()))
    assert answer.code == 200 and delivery.state == "delivered"
    assert receiver.received[0].json["title"] == "[default] Test from Tenfour"
    monkeypatch.setattr(settings, "SECRET_KEY", "o" * 50)
    with pytest.raises(encryption.Unreadable, match="Enter its address again"):
        channels.address_of(channel)
    escalate(make_agent())
    run_clock()
    delivery = Delivery.objects.get(role="new")
    assert "another secret key" in delivery.error
    assert Channel.objects.get().state == "failing"


ONE_PLUGIN = """
import sys
from retries.notifications.services import plugins as found

def loaded():
    return {name.split(".")[2] for name in sys.modules if name.startswith("apprise.plugins.")}

assert not loaded()
assert found.make_plugin("ntfy://127.0.0.1/oncall").service_name == "ntfy"
assert found.make_plugin("mailto://127.0.0.1?from=a@b.example&to=c@d.example")
assert found.find_plugin("nothing") is None
assert loaded() <= {"base", "email", "ntfy"}, loaded()

import apprise
from retries.notifications.services.person_services import LOCAL

everything = apprise.manager_plugins.NotificationManager()
for scheme in everything.schemas():
    assert scheme in LOCAL or found.find_plugin(scheme) is everything[scheme], scheme
"""


def test_only_the_plugin_of_a_channel_is_loaded() -> None:
    """Each scheme of apprise has the plugin that apprise itself would use."""
    run = subprocess.run([sys.executable, "-c", ONE_PLUGIN], cwd=ROOT, stderr=subprocess.PIPE)
    assert run.returncode == 0, run.stderr.decode()
