"""Describe operations on many rows: the words for their verbs, and their events (pure)."""

from dataclasses import dataclass

from dashboard.sentences.event_sentence import EventSentence, plain, unknown, who_of
from dashboard.wording.formatting import counted
from ledger.journal import Kind
from ledger.models import Event


@dataclass(frozen=True, slots=True)
class VerbWords:
    """The words for a verb: as a command, while it runs, and when it is done."""

    do: str
    doing: str
    done: str
    noun: str
    icon: str
    tail: str = ""  # what the verb does it with, after the rows
    label: str = ""  # of its button, where it is not the command

    @property
    def button(self) -> str:
        """The label of its button, which names no rows."""
        return self.label or self.do.removesuffix(" of")


# by the names of `retries.operations.registry`
WORDS = {
    "task.retry": VerbWords("Retry", "Retrying", "retried", "task", "s-retry"),
    "task.fix": VerbWords(
        *("Retry", "Retrying", "retried", "task", "n-instructions"),
        tail=" with an instruction",
        label="Retry with instruction",
    ),
    "task.reassign": VerbWords("Reassign", "Reassigning", "reassigned", "task", "n-agents"),
    "task.retry_now": VerbWords("Retry now", "Retrying", "retried", "task", "play"),
    "task.unblock": VerbWords("Unblock", "Unblocking", "unblocked", "task", "play"),
    "task.skip": VerbWords("Skip", "Skipping", "skipped", "task", "s-skipped"),
    "task.abort": VerbWords("Abort", "Aborting", "aborted", "task", "s-aborted"),
    "task.prioritize": VerbWords(
        *("Change priority of", "Changing the priority of", "changed", "task", "pen"),
        label="Priority",
    ),
    "dead_letter.replay": VerbWords("Replay", "Replaying", "replayed", "dead letter", "undo"),
    "dead_letter.dismiss": VerbWords("Dismiss", "Dismissing", "dismissed", "dead letter", "trash"),
    "escalation.answer": VerbWords("Answer", "Answering", "answered", "escalation", "s-escalated"),
    "instruction.send_again": VerbWords(
        "Send again", "Sending again", "sent again", "instruction", "undo"
    ),
    "instruction.cancel": VerbWords(
        "Cancel", "Cancelling", "cancelled", "instruction", "s-aborted"
    ),
}
UNKNOWN = VerbWords("Change", "Changing", "changed", "row", "info")


def words_of(verb: str) -> VerbWords:
    return WORDS.get(verb, UNKNOWN)


def describe_operation_event(event: Event) -> EventSentence:
    actor, data = who_of(event), event.data
    words = words_of(str(data.get("verb")))
    changed, refused = int(data.get("changed") or 0), int(data.get("refused") or 0)
    done = f"{counted(changed, words.noun)} {words.done}{words.tail}"
    result = f": {done}, {refused:,} left as they were" if refused else f": {done}"
    match event.kind:
        case Kind.AUDIT_EXPORTED:
            of = f" of {data['query']}" if data.get("query") else ""
            return plain("copy", actor, "exported the audit log", of)
        case Kind.OPERATION_STARTED:
            count = counted(int(data.get("count") or 0), words.noun)
            does = f": {words.do.lower()} {count}{words.tail}"
            return plain(words.icon, actor, "started an operation", does)
        case Kind.OPERATION_RESUMED:
            return plain("undo", "Tenfour", "continued an operation of a lost worker", result)
        case Kind.OPERATION_STOPPED:
            return plain("pause", actor, "stopped an operation", result)
        case Kind.OPERATION_UNDONE:
            return plain("undo", actor, "undid an operation before it started")
        case Kind.OPERATION_COMPLETED:
            return plain("check", "Tenfour", "finished an operation", result)
    return unknown(event)
