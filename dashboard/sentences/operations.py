"""Describe operations on many rows: the words for their verbs, and their events (pure)."""

from dashboard.sentences.event_sentence import EventSentence, plain, unknown, who_of
from dashboard.wording.formatting import counted
from ledger.journal import Kind
from ledger.models import Event
from retries.operations.registry import UNKNOWN, VERBS
from retries.verbs.verb import Verb


def words_of(verb: str) -> Verb:
    return VERBS.get(verb, UNKNOWN)


def describe_operation_event(event: Event) -> EventSentence:
    actor, data = who_of(event), event.data
    words = words_of(str(data.get("verb")))
    changed, refused = int(data.get("changed") or 0), int(data.get("refused") or 0)
    done = f"{counted(changed, words.row)} {words.done}{words.tail}"
    result = f": {done}, {refused:,} left as they were" if refused else f": {done}"
    match event.kind:
        case Kind.AUDIT_EXPORTED:
            of = f" of {data['query']}" if data.get("query") else ""
            return plain("copy", actor, "exported the audit log", of)
        case Kind.OPERATION_STARTED:
            count = counted(int(data.get("count") or 0), words.row)
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
