"""Describe events of members and invitations in sentences (pure)."""

from typing import Any

from dashboard.sentences.event_sentence import EventSentence, plain, unknown, who_of
from dashboard.wording.formatting import counted
from ledger.journal import Kind
from ledger.models import Event


def describe_member_event(event: Event) -> EventSentence:
    actor, data = who_of(event), event.data
    who, role = str(data.get("person") or "someone"), as_role(data.get("role"))
    guest = f" for {data['for']}" if data.get("for") else ""
    match event.kind:
        case Kind.MEMBER_ADDED:
            group = f" by the group {data['group']}" if data.get("group") else ""
            if who == actor:
                return plain("person", actor, f"joined as {role}{group}")
            return plain("person", actor, f"added {who} as {role}{group}")
        case Kind.MEMBER_CHANGED:
            return plain("person", actor, f"made {who} {role}", f", before {data.get('before')}")
        case Kind.MEMBER_REMOVED:
            return plain("person", actor, f"removed {who} from the project")
        case Kind.MEMBER_SIGNED_OUT:
            ended = counted(int(data.get("browsers") or 1), "signed-in browser")
            return plain("person", actor, f"ended {ended} of {who}")
        case Kind.MEMBER_PASSWORD_CHANGED:
            return plain("key", actor, "changed the password")
        case Kind.INVITATION_CREATED:
            return plain("person", actor, f"invited {role}{guest}")
        case Kind.INVITATION_ACCEPTED:
            return plain("person", actor, f"accepted the invitation as {role}")
        case Kind.INVITATION_REVOKED:
            return plain("person", actor, f"revoked the invitation{guest}")
    return unknown(event)


def as_role(role: Any) -> str:
    """Return a role with its article.

    >>> as_role("operator")
    'an operator'
    """
    name = str(role or "member")
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"
