"""The spans of an attempt on its task's page: a tree beside an axis, loaded when it is opened."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from dashboard.tasks.spans import views
from dashboard.tasks.spans.waterfall import DEEPEST, INDENT, build_waterfall
from ledger.models import Agent, Attempt
from tests.conftest import Api
from tests.factories import NOW
from tests.retries.traces.exports import SECOND, call, claim_in, send_protobuf, span

HTMX = {"HX-Request": "true"}


def made(id: str, parent: str = "", start: float = 0, length: float = 1) -> Any:
    at = NOW + timedelta(seconds=start)
    return SimpleNamespace(
        span_id=id,
        parent_id=parent,
        started_at=at,
        ended_at=at + timedelta(seconds=length),
        status=0,
        usage=None,
    )


def outline(*spans: Any) -> list[tuple[str, int, bool, int]]:
    rows = build_waterfall(spans)
    return [(r.span.span_id, r.indent // INDENT, r.opens, len(r.closes)) for r in rows]


def test_spans_are_below_their_parents_in_the_order_of_their_start() -> None:
    spans = [made("c", "a", 3), made("b", "a", 1), made("d", "b", 2), made("a"), made("e", "?", 9)]
    assert outline(*spans) == [
        ("a", 0, True, 0),
        ("b", 1, True, 0),
        ("d", 2, False, 1),
        ("c", 1, False, 1),
        ("e", 0, False, 0),
    ]
    assert outline() == []


def test_spans_in_a_circle_and_deep_ones_are_all_shown() -> None:
    circle = [made("a", "b"), made("b", "a", 1), made("self", "self", 2)]
    assert {id for id, *_ in outline(*circle)} == {"a", "b", "self"}
    deep = [made(str(n), str(n - 1), n) for n in range(DEEPEST + 5)]
    found = outline(*deep)
    assert len(found) == len(deep) and max(depth for _, depth, *_ in found) == DEEPEST
    assert sum(opens for *_, opens, _ in found) == sum(closes for *_, closes in found) == DEEPEST


def test_bars_lie_on_the_axis() -> None:
    rows = build_waterfall(
        [made("a", length=10), made("b", start=5, length=0), made("c", start=10, length=0)]
    )
    assert [(row.x, row.width) for row in rows] == [(0, 100), (50, 0.4), (99.6, 0.4)]
    assert [row.took for row in rows] == ["10 s", "0 ms", "0 ms"]


@pytest.mark.django_db
def test_the_page_of_a_task_loads_spans_when_they_are_opened(
    admin_client: Client, agent: Agent, coder: Api
) -> None:
    attempt = Attempt.objects.get(pk=claim_in(coder, agent))
    address = f"/tasks/{attempt.task_id}/spans/1/"
    assert address not in admin_client.get(f"/tasks/{attempt.task_id}/").content.decode()
    assert "sent no spans" in admin_client.get(address).content.decode()
    assert admin_client.get(f"/tasks/{attempt.task_id}/spans/2/").status_code == 404
    failed = {"status": {"code": 2, "message": "rate <limited>"}}
    send_protobuf(
        coder,
        span(1, "invoke_agent <coder>", length=3 * SECOND),
        call(2, 1840, parent=1, at=NOW + SECOND, more=failed),
    )
    page = admin_client.get(f"/tasks/{attempt.task_id}/").content.decode()
    assert f'hx-get="{address}"' in page and "2 spans" in page
    part = admin_client.get(address, headers=HTMX).content.decode()
    assert "<html" not in part
    assert "invoke_agent &lt;coder&gt;" in part and "claude-sonnet-4-5" in part
    assert "1.84 k tokens" in part and 'aria-label="Failed:"' in part
    whole = admin_client.get(address, {"span": f"{2:016x}"}).content.decode()
    assert "rate &lt;limited&gt;" in whole and "gen_ai.usage.input_tokens" in whole
    assert admin_client.get(address, {"span": "\x00"}).status_code == 200


@pytest.mark.django_db
def test_a_long_trace_shows_its_start(
    admin_client: Client, agent: Agent, coder: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "SPANS_SHOWN", 5)
    attempt = Attempt.objects.get(pk=claim_in(coder, agent))
    send_protobuf(coder, *(span(n, f"step {n}", at=NOW + n * SECOND) for n in range(1, 9)))
    page = admin_client.get(f"/tasks/{attempt.task_id}/spans/1/").content.decode()
    assert "The first 5 of 8 spans." in page
    assert "step 5" in page and "step 6" not in page
