"""Save and delete views: filters of lists under names that a project shares."""

from django.db import IntegrityError, transaction

from ledger import journal
from ledger.errors import Invalid, InvalidTransition
from ledger.journal import Kind, Stamp
from ledger.models import Project, SavedView
from ledger.secrets.redaction import redacted

MOST = 20  # of a list in a project
NAME_LENGTH = 40


@transaction.atomic
def save_view(
    project: Project, listed: str, name: str, *, query: str, sort: str = "", stamp: Stamp
) -> SavedView:
    """Save a filter of a list under a name.

    Raises Invalid for a missing or taken name and for an empty filter, and InvalidTransition if the
    list has MOST views.
    """
    name = " ".join(name.replace("\0", "").split())
    if not name or len(name) > NAME_LENGTH:
        raise Invalid("/name", f"Enter a name of at most {NAME_LENGTH} characters.")
    if not query and not sort:
        raise Invalid("/query", "Filter or sort the list first, then save the view.")
    # One view after the other, so that the number is exact.
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    views = SavedView.objects.filter(project=project, list=listed)
    if views.count() >= MOST:
        raise InvalidTransition(
            f"A list can have {MOST} saved views. Delete one first.", current="full", allowed=[]
        )
    try:
        with transaction.atomic():
            view = SavedView.objects.create(
                project=project,
                list=listed,
                name=redacted(name)[:NAME_LENGTH],
                query=redacted(query),
                sort=sort,
                created_by=stamp.actor.name,
            )
    except IntegrityError:
        raise Invalid(
            "/name", f"There is a view “{name}” already. Choose another name, or delete it first."
        ) from None
    record_event(Kind.SAVED_VIEW_CREATED, view, stamp=stamp)
    return view


@transaction.atomic
def delete_view(view: SavedView, *, stamp: Stamp) -> bool:
    """Delete a view; return False if it was deleted before."""
    deleted, _ = SavedView.objects.filter(pk=view.pk).delete()
    if deleted:
        record_event(Kind.SAVED_VIEW_DELETED, view, stamp=stamp)
    return bool(deleted)


def record_event(kind: Kind, view: SavedView, *, stamp: Stamp) -> None:
    data = {"name": view.name, "list": view.list, "query": view.query, "sort": view.sort}
    given = {name: value for name, value in data.items() if value}
    journal.record_about("saved_view", view, kind, stamp=stamp, data=given)
