"""The words of tasks and instructions, for the search."""

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models

from ledger.models.instruction import Instruction
from ledger.models.task import Task


class TaskWords(models.Model):
    """The words of a task's title, type and ref; the clock writes them, a trigger updates them.

    They have a table of their own, because a task's row changes often, and each change would write
    a full-text index again.
    """

    task = models.OneToOneField(
        Task,
        models.CASCADE,
        primary_key=True,
        db_constraint=False,
        related_name="search_words",
    )
    words = SearchVectorField()

    class Meta:
        indexes = [GinIndex(fields=["words"], name="task_words")]

    def __str__(self) -> str:
        return f"words of {self.task_id}"


class InstructionWords(models.Model):
    """The words of an instruction, written by the clock."""

    instruction = models.OneToOneField(
        Instruction,
        models.CASCADE,
        primary_key=True,
        db_constraint=False,
        related_name="search_words",
    )
    words = SearchVectorField()

    class Meta:
        indexes = [GinIndex(fields=["words"], name="instruction_words")]

    def __str__(self) -> str:
        return f"words of {self.instruction_id}"
