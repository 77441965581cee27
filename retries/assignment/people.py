"""Find the people whom an assignment or a comment names."""

import re
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from ledger.authorization.permissions import may, people_who_may
from ledger.errors import Invalid
from ledger.secrets.notes import NOTE_LENGTH, clean_note
from retries.escalations.choices import check_text

MOST_MENTIONED = 20
# A name in the middle of a word is part of an address, such as ops@example.org.
MENTION = re.compile(r"(?<![\w.@+-])@([\w.@+-]{1,150}+)")
ENDS = ".@+-"  # a name can end with these, but a sentence does more often


def find_assignee(name: str | None, permission: str, *project_ids: UUID) -> User | None:
    """Return the user with this name, who may act in these projects; raise Invalid otherwise."""
    if not name:
        return None
    found = User.objects.filter(username=name).first() if "\0" not in name else None
    if not (found and all(may(found, permission, id) for id in project_ids)):
        raise Invalid(
            "/user", f"There is no active user '{name}' who has the permission to act on it."
        )
    return found


def build_comment(text: str, permission: str, project_id: UUID) -> dict[str, Any]:
    """Return the data of a comment's event: its text without secrets, and the people it mentions.

    Only those who have the permission to see the subject are mentioned. Raises Invalid.
    """
    text = text.strip()
    if not 1 <= len(text) <= NOTE_LENGTH:
        raise Invalid("/text", f"A comment has 1 to {NOTE_LENGTH} characters.")
    check_text(text, "/text")
    said = clean_note(text)
    if not said:
        raise Invalid("/text", "The comment has no visible characters.")
    names = list_mentions(said)
    people = people_who_may(permission, project_id).filter(username__in=names) if names else ()
    mentioned = [each.username for each in people]
    return {"text": said} | ({"mentions": mentioned} if mentioned else {})


def list_mentions(text: str) -> list[str]:
    """Return the names in a text that may be those of users.

    >>> list_mentions("@mara, ask @joe.doe. Not ops@example.org")
    ['mara', 'joe.doe.', 'joe.doe']
    """
    found = list(dict.fromkeys(match[1] for match in MENTION.finditer(text)))[:MOST_MENTIONED]
    return list(dict.fromkeys(each for name in found for each in (name, name.rstrip(ENDS)) if each))
