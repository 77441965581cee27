"""The verbs of all nouns that people take care of: assign a row to a person, comment on it."""

from collections.abc import Callable, Collection
from typing import Any
from uuid import UUID

from django.db.models import Q

from ledger.journal import Stamp
from retries.assignment.people import find_assignee
from retries.assignment.rows import Noun, assign, comment
from retries.verbs.verb import Left, Options, Rows, Verb, note_of

Find = Callable[[list[UUID]], dict[UUID, UUID]]  # the id of the noun's row -> the id of the row


def own_ids(ids: list[UUID]) -> dict[UUID, UUID]:
    return {id: id for id in ids}


def make_assign(
    name: str, noun: Noun, model: type[Any], *, path: str = "", find: Find = own_ids
) -> Verb:

    def run(ids: list[UUID], options: Options, stamp: Stamp) -> list[UUID]:
        found, user, note = find(ids), options["user"] or None, note_of(options)
        return [found[id] for id in assign(noun, found, user, note=note, stamp=stamp)]

    def fit(rows: Rows, options: Options) -> Rows:
        user = options["user"]
        projects = rows.order_by().values_list("project", flat=True).distinct()
        find_assignee(user, noun.permission("change"), *projects)
        if not user:
            return rows.exclude(**{f"{path}assignee": None})
        return rows.exclude(**{f"{path}assignee__username": user})

    return Verb(
        name=name,
        model=model,
        where=Q(),
        fit=fit,
        takes={"user": str.strip},
        run=run,
        describe=lambda ids: dict.fromkeys(ids, Left("Already assigned to them")),
        words=("Assign", "Assigning", "assigned"),
        icon="person",
        slug="assign",
        key="m",
        said=tell_assigned,
        unchanged=lambda id: "Nothing changed. The assignee is already the same.",
    )


def tell_assigned(changed: Collection[UUID], ids: list[UUID], options: Options) -> str:
    number = f"{len(changed):,} assigned" if len(ids) > 1 else "Assigned"
    return f"{number} to {options['user'] or 'no one'}."


def make_comment(name: str, noun: Noun, model: type[Any], *, find: Find = own_ids) -> Verb:
    def run(ids: list[UUID], options: Options, stamp: Stamp) -> list[UUID]:
        for id in find(ids):
            comment(noun, id, options["text"], stamp=stamp)
        return ids

    return Verb(
        name=name,
        model=model,
        where=Q(),
        takes={"text": str},
        run=run,
        words=("Comment on", "Commenting on", "commented on"),
        icon="pen",
        label="Comment",
        slug="comment",
        once=True,
        said=lambda changed, ids, options: "Comment added.",
    )
