"""The saved view: a filter of a list under a name, shared with the project."""

from django.db import models

from ledger.models.fields import key, stamp
from ledger.models.project import Project


class SavedView(models.Model):
    """A query of a list with its order, under a name that everyone in the project sees."""

    id = key()
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    list = models.CharField(max_length=16, help_text="the list that it filters, such as tasks")
    name = models.CharField(max_length=40)
    query = models.CharField(max_length=300, blank=True)
    sort = models.CharField(max_length=20, blank=True, db_default="")
    created_by = models.CharField(max_length=150)
    created_at = stamp()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "list", "name"], name="saved_view_name_once"
            ),
        ]

    def __str__(self) -> str:
        return self.name
