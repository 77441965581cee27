"""Save and delete views: filters of lists under names that a project shares."""

from django.db import IntegrityError, transaction

from ledger.errors import Invalid, InvalidTransition
from ledger.models import Project, SavedView

MOST = 20  # of a list in a project


@transaction.atomic
def save_view(
    project: Project, listed: str, name: str, *, query: str, sort: str = "", by: str
) -> SavedView:
    """Save a filter of a list under a name.

    Raises Invalid for a missing or taken name and for an empty filter, and InvalidTransition if the
    list has MOST views.
    """
    name = " ".join(name.replace("\0", "").split())
    if not name or len(name) > 40:
        raise Invalid("/name", "Enter a name of at most 40 characters.")
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
            return SavedView.objects.create(
                project=project, list=listed, name=name, query=query, sort=sort, created_by=by
            )
    except IntegrityError:
        raise Invalid(
            "/name", f"There is a view “{name}” already. Choose another name, or delete it first."
        ) from None


def delete_view(view: SavedView) -> bool:
    """Delete a view; return False if it was deleted before."""
    deleted, _ = SavedView.objects.filter(pk=view.pk).delete()
    return bool(deleted)
