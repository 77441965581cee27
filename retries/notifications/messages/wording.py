"""Word the messages to people (pure).

The first words carry the fact, because a lock screen shows no more. Agents' words are text: they
are clipped, and each service gets them without markup of their own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.values.text import counted, truncate

TITLE_LENGTH = 60
DETAIL_LENGTH = 300
LISTED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts in a message about the subject of an event."""

    project: str
    agent: str = ""
    title: str = ""
    kind: str
    reason: str = ""
    attempts: str = ""
    waiting: int = 0
    actor: str = ""
    action: str = ""
    plan: str = ""
    count: int = 0
    detail: str = ""
    figures: str = ""  # of a budget
    url: str = ""
    short_id: str = ""
    until: str = ""  # when a permission request or the limit of an account ends
    severity: str = ""
    is_question: bool = False
    age: str = ""
    since: str = ""
    subject_id: str = ""
    cause: str = ""
    for_person: str = ""
    worked: str = ""
    answers: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """A message: its subject line, its text, and the page that it leads to. All services get it.

    Messages with the same `thread` belong together; `reply_to` is the subject line of the first
    of them, and empty in the first. One that `closes` its thread also replaces the first message,
    where a service can edit what it has sent.
    """

    subject: str
    text: str
    url: str = ""
    thread: str = ""
    reply_to: str = ""
    escalation: str = ""
    closes: bool = False


def read_message(stored: Mapping[str, Any]) -> Message:
    # Earlier versions also stored parts of its text.
    return Message(**{name: stored[name] for name in Message.__slots__ if name in stored})


MENTION = "mention"  # of a person in a comment, in place of the kind of its event
MAY_I = "permission_request"  # the reason of an escalation
# the kinds of events whose messages ask for an answer
QUESTION_KINDS = (
    "escalation.opened",
    "escalation.reopened",
    "escalation.told",
    "escalation.reminded",
)
# the beginning of the subject by the event's kind; `{title}` and `{agent}` are filled in
HEADS = {
    "escalation.opened": "Needs you: {title}",
    "escalation.reopened": "Needs you again: {title}",
    "escalation.resolved": "Answered: {title}",
    "escalation.expired": "No answer in time: {title}",
    "escalation.withdrawn": "Needs no answer any more: {title}",
    "escalation.assigned": "Taken: {title}",
    "escalation.commented": "Commented: {title}",
    "task.assigned": "Assigned: {title}",
    "pattern.assigned": "Assigned: {title}",
    "task.commented": "Commented: {title}",
    "pattern.commented": "Commented: {title}",
    MENTION: "Mentioned you: {title}",
    "escalation.told": "Your turn: {title}",
    "escalation.reminded": "Still open: {title}",
    "agent.breaker_opened": "Breaker open: {agent}",
    "agent.breaker_closed": "Breaker closed: {agent}",
    "agent.silent": "Silent: {agent}",
    "agent.heard": "Back: {agent}",
    "agent.needs_attention": "Waits at its terminal: {agent}",
    "limit.reached": "At its limit: {title}",
    "limit.ended": "Has room again: {title}",
    "budget.near": "Budget nearly used: {title}",
    "budget.reached": "Budget used up: {title}",
    "plan.completed": "Plan done: {title}",
    "plan.aborted": "Plan aborted: {title}",
    "plan.stuck": "Plan stuck: {title}",
    "instruction.failed": "Instruction ignored: {title}",
    "task.failed": "Failed permanently: {title}",
    "task.files_outside": "Changed other files: {title}",
    "webhook.disabled": "Channel stopped: {title}",
}


def word_event(facts: Facts, *, footer: str = "") -> Message:
    return build_message(facts, lede=sentence_of(facts), detail=facts.detail, footer=footer)


def build_message(facts: Facts, *, lede: str, detail: str = "", footer: str = "") -> Message:
    head, command = head_of(facts), command_of(facts)
    return Message(
        subject=f"[{facts.project}] {head}{tail_of(facts)}",
        text=join_parts(
            head,
            lede,
            quote(detail),
            f"{link_of(facts)}: {facts.url}" if facts.url else "",
            "\n".join(f"{name}: {value}" for name, value in facts_of(facts)),
            list_answers(facts),
            f"From a terminal: {command}" if command else "",
            footer,
        ),
        url=facts.url,
        escalation=facts.subject_id if facts.kind.startswith("escalation.") else "",
    )


def word_reminder(facts: Facts, *, footer: str = "") -> Message:
    since = f"Still open after {facts.age}." if facts.age else "Still open."
    return build_message(facts, lede=f"{since} {sentence_of(facts)}", footer=footer)


def word_assigned(facts: Facts, many: str, *, url: str, footer: str = "") -> Message:
    head = f"Assigned: {many}"
    said = f"{facts.actor} assigned {many} to {facts.action}. Project {facts.project}."
    text = join_parts(head, said, f"Open: {url}", footer)
    return Message(f"[{facts.project}] {head}", text, url)


def word_summary(
    many: Sequence[Facts], *, total: int, closed: int, because: str, url: str, footer: str = ""
) -> Message:
    # `many` has the first facts; `total` counts all of them.
    projects = sorted({facts.project for facts in many if facts.project})
    where = f"[{', '.join(projects[:3])}] " if projects else ""
    kinds = Counter(label_of(facts.kind) for facts in many)
    counts = ", ".join(f"{count} {label}" for label, count in kinds.most_common(LISTED))
    head = f"{total} held back" + (f": {counts}" if total == len(many) else "")
    shown = [f"- {head_of(facts)}{tail_of(facts)}" for facts in many[:LISTED]]
    if total > LISTED:
        shown.append(f"- and {total - LISTED} more")
    ended = f"{closed} of them {'needs' if closed == 1 else 'need'} nothing any more."
    said = f"{because} {ended}" if closed else because
    text = join_parts(head, said, "\n".join(shown), f"Open: {url}", footer)
    return Message(f"{where}{head}", text, url)


def word_test(*, project: str, sent_by: str, url: str) -> Message:
    text = f"Test from Tenfour ({project}), sent by {sent_by}."
    return Message(f"[{project}] Test from Tenfour", join_parts(text, url), url)


def head_of(facts: Facts) -> str:
    head = HEADS.get(facts.kind, "{kind}: {title}")
    if is_question(facts) and facts.reason == MAY_I:
        head = "May I? {title}"
    title = truncate(one_line(facts.title), TITLE_LENGTH) or facts.short_id or "untitled"
    return head.format(title=title, agent=facts.agent or "an agent", kind=facts.kind)


def tail_of(facts: Facts) -> str:
    of_agent = facts.kind.startswith("agent.")
    parts = [part for part in ("" if of_agent else facts.agent, facts.attempts) if part]
    return f" ({', '.join(parts)})" if parts else ""


def sentence_of(facts: Facts) -> str:
    waits = counted(facts.waiting, "task waits", "tasks wait") + "." if facts.waiting else ""
    match facts.kind:
        case "escalation.opened" | "escalation.reopened" if facts.is_question:
            said = f"{facts.agent} asks a question."
        case "escalation.opened" | "escalation.reopened" if facts.reason == MAY_I:
            said = f"{facts.agent} asks until {facts.until} whether it may make this call."
        case "escalation.opened" | "escalation.reopened":
            failed = facts.attempts or "needs an answer"
            said = f"{facts.agent} {failed}: {words_of(facts.reason)}."
        case "escalation.resolved":
            said = f"{facts.actor} answered: {facts.action}. Nothing is left to do."
            waits = ""
        case "escalation.assigned" | "task.assigned" | "pattern.assigned":
            said = f"{facts.actor} assigned it to {facts.action or 'no one'}."
        case "escalation.told" | "escalation.reminded":
            waiting = f"{facts.agent} waits: {words_of(facts.reason)}"
            said = f"On call: {facts.action or 'no one'}. {waiting}."
        case "escalation.commented" | "task.commented" | "pattern.commented":
            said = f"{facts.actor} commented on it."
        case "mention":
            said = f"{facts.actor} mentioned you in a comment."
            waits = ""
        case "agent.breaker_opened":
            failures = counted(facts.count, "consecutive failure", "consecutive failures")
            said = f"{failures}; it gets no tasks until its breaker lets one through."
        case "agent.breaker_closed":
            said = "It gets tasks again. Nothing is left to do."
        case "agent.silent":
            waiting = counted(facts.count, "instruction waits", "instructions wait")
            said = f"It has not called, and {waiting}." if facts.count else "It has not called."
        case "agent.heard":
            said = "It has called again. Nothing is left to do."
        case "limit.reached":
            said = f"Its agents get no tasks until {facts.until}. Nothing counts as a failure."
        case "limit.ended":
            said = "Its agents get tasks again. Nothing is left to do."
        case "task.files_outside":
            files = counted(facts.count, "file")
            said = f"{facts.agent} changed {files} outside of the task's files."
        case "budget.near":
            said = facts.figures or "It is nearly used up."
        case "budget.reached":
            said = f"{facts.figures or 'It is used up.'} Its tasks wait until there is more."
        case "plan.stuck":
            said = "None of its tasks can start until a person decides."
        case "webhook.disabled":
            said = f"It is disabled: {words_of(facts.reason)}. Nothing is sent to it."
        case _:
            said = f"{facts.kind}{f': {words_of(facts.reason)}' if facts.reason else ''}."
    where = f"Project {facts.project}{f', plan {facts.plan}' if facts.plan else ''}."
    return " ".join(part for part in (said, waits, where) if part)


def is_question(facts: Facts) -> bool:
    return facts.kind in QUESTION_KINDS


def link_of(facts: Facts) -> str:
    # Opening the page changes nothing.
    return "Open and answer" if is_question(facts) else "Open"


def command_of(facts: Facts) -> str:
    if not (is_question(facts) and facts.short_id):
        return ""
    answer = "answer" if facts.is_question else "fix: …"
    if facts.reason == MAY_I:
        answer = "deny: …"
    return f'tenfour esc resolve {facts.short_id} "{answer}"'


def facts_of(facts: Facts) -> list[tuple[str, str]]:
    if not is_question(facts):
        return []
    where = f"Plan {facts.plan}" if facts.plan else f"Project {facts.project}"
    severe = "high: it came through quiet hours" if facts.severity == "high" else ""
    rows = [
        ("Waiting since", facts.since),
        ("Reason", words_of(facts.reason) if facts.reason else ""),
        ("Severity", severe),
        ("Likely cause", truncate(one_line(facts.cause), DETAIL_LENGTH)),
        ("For a person", one_line(facts.for_person)),
        ("Worked before", truncate(one_line(facts.worked), DETAIL_LENGTH)),
        ("Where", where),
    ]
    return [(name, value) for name, value in rows if value]


def list_answers(facts: Facts) -> str:
    if not (facts.answers and is_question(facts)):
        return ""
    return "\n".join(["Your answers:", *(f"- {name}: {url}" for name, url in facts.answers)])


def label_of(kind: str) -> str:
    """Return the name of what a summary counts.

    >>> label_of("escalation.opened"), label_of("plan.stuck")
    ('new escalations', 'plan stuck')
    """
    if kind.startswith("escalation."):
        return "new escalations"
    return kind.replace(".", " ").replace("_", " ")


def words_of(reason: str) -> str:
    return reason.replace("_", " ") or "no reason given"


def quote(detail: str) -> str:
    lines = truncate(detail.strip(), DETAIL_LENGTH).splitlines()
    return "\n".join(f"    {line.rstrip()}" for line in lines)


def one_line(text: str) -> str:
    return " ".join(text.split())


def join_parts(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
