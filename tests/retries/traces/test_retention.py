"""Spans are archived and deleted like sessions, or with their task."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from ledger.models import Agent, Attempt
from retries.models import AttemptSpan, AttemptTrace
from retries.retention import running, trace_rows
from tests.conftest import Api
from tests.retries.traces.exports import TRACE, claim_in, send_protobuf, span

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("setting", ["SESSION_DAYS", "TASK_DAYS"])
def test_old_spans_are_archived_and_deleted(
    setting: str,
    agent: Agent,
    coder: Api,
    tmp_path: Path,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(trace_rows, "SPANS_READ", 2)
    settings.TENFOUR = settings.TENFOUR | {setting: 30, "ARCHIVE": str(tmp_path)}
    now = timezone.now()
    attempt = claim_in(coder, agent, now=now)
    send_protobuf(coder, *(span(n, f"step {n}") for n in range(1, 6)))
    later = now + timedelta(days=40)
    # a live attempt keeps them
    running.delete_old(now=later)
    assert AttemptSpan.objects.count() == 5
    coder("POST", f"/attempts/{attempt}/result", {"status": "success"})
    running.delete_old(now=now + timedelta(days=20))
    assert AttemptSpan.objects.count() == 5
    running.delete_old(now=later)
    assert not AttemptSpan.objects.exists() and not AttemptTrace.objects.exists()
    assert Attempt.objects.exists() == (setting == "SESSION_DAYS")
    call_command("archive", "show", attempt)
    text = capsys.readouterr().out
    assert all(f"step {n}" in text for n in range(1, 6)) and TRACE in text
