"""A marker: a deploy or another change, drawn on charts of time."""

from typing import Self

from django.db import models

from ledger.authorization.principal import Principal
from ledger.models.fields import key, stamp
from ledger.models.project import Project


class MarkerQuerySet(models.QuerySet["Marker"]):
    def visible_to(self, principal: Principal) -> Self:
        return self.filter(project_id=principal.project_id)


class Marker(models.Model):
    """A moment at which something changed outside of Tenfour, such as a deploy."""

    id = key()
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    name = models.CharField(max_length=120)
    kind = models.CharField(max_length=32, help_text="what happened, such as deploy or change")
    at = models.DateTimeField()
    link = models.CharField(max_length=500, db_default="", help_text="a page about it, or empty")
    text = models.CharField(max_length=2000, db_default="")
    created_by = models.CharField(max_length=150)
    created_at = stamp()

    objects = MarkerQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["project", "at"], name="marker_of_project"),
            models.Index(fields=["at"], name="marker_at"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        """The marker's name with its kind, unless the name begins with it."""
        has_kind = self.name.lower().startswith(self.kind.lower())
        return self.name if has_kind else f"{self.kind} {self.name}"
