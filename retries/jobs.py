"""Celery tasks; each calls one verb."""

from datetime import timedelta

from celery import shared_task

from retries import sweeps


@shared_task
def run_entry(name: str, every: float) -> None:
    """Run one entry of the clock, unless another beat has just run it."""
    sweeps.run_due(name, every=timedelta(seconds=every))
