"""Define the django-tasks job; django-tasks requires an importable module."""

from django_tasks import task


@task()
def do_nothing(n: int) -> None:
    """Return at once."""
