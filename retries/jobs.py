"""Celery's functions: each loads and calls one verb."""

from datetime import timedelta

from celery import shared_task

from retries import sweeps


@shared_task
def run_entry(name: str, every: float) -> None:
    """Run one entry of the clock, unless another beat's tick has just done it."""
    sweeps.run_due(name, every=timedelta(seconds=every))
