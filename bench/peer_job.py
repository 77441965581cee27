"""A job of django-tasks, which wants its jobs in a module of their own."""

from django_tasks import task


@task()
def nothing(n: int) -> None:
    """Does what it says."""
