"""Celery tasks; each calls one verb."""

import math
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from celery import shared_task

from ledger.database import server_time
from retries import sweeps
from retries.notifications.deliveries import sending
from retries.operations import running
from retries.sessions import buffering, processing
from retries.sessions.buffering import InsertNewMessage

# When this process last ran each entry of the clock, by `time.monotonic`.
last_runs: dict[str, float] = {}


@shared_task
def run_entry(name: str, every: float) -> None:
    # After an outage of the workers, thousands of jobs wait. In each process, only the first costs
    # statements; `run_due` does not run an entry that another beat has just run.
    started = time.monotonic()
    if started - last_runs.get(name, -math.inf) < every / 2:
        return
    # First all entries run, so that none depends on the jobs of another.
    for entry, did in list(run_due(name, every)):
        if entry == "notifications" and did["unsent"]:
            for channel_id in sending.due_channels(server_time.now()):
                request_sending(channel_id)
        if entry == "operations" and did["due"]:
            for operation_id in running.list_due(server_time.now()):
                request_run(operation_id)
    last_runs[name] = started


def run_due(name: str, every: float) -> Iterable[tuple[str, dict[str, Any]]]:
    if name == "frequent":
        return sweeps.run_frequent()
    did = sweeps.run_due(name, every=timedelta(seconds=every))
    return [] if did is None else [(name, did)]


@shared_task
def run_operation(operation_id: str) -> None:
    # If this run was too short for everything, queue another one.
    if running.run_operation(UUID(operation_id)):
        request_run(UUID(operation_id))


def request_run(operation_id: UUID) -> None:
    # If Redis is down, the clock's next run queues the job.
    run_operation.apply_async(kwargs={"operation_id": str(operation_id)})


@shared_task
def send_to_channel(channel_id: str) -> None:
    # If this run was too short for everything, queue another one.
    if sending.send_to_channel(UUID(channel_id)):
        request_sending(UUID(channel_id))


def request_sending(channel_id: UUID) -> None:
    # If Redis is down, the clock's next run queues the job.
    send_to_channel.apply_async(kwargs={"channel_id": str(channel_id)})


@shared_task
def insert_new_message(event: dict[str, Any]) -> None:
    buffering.insert_new_message(InsertNewMessage.from_json(event))


@shared_task
def buffer_new_message(event: dict[str, Any]) -> None:
    processing.buffer_new_message(InsertNewMessage.from_json(event))
