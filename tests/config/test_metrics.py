"""Each metric has the labels that it should have, and no more agents than it should."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from config.monitoring.metrics import TOP_AGENTS
from ledger.access.auth_failures import PER_MINUTE
from ledger.database import process_counters
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Breaker, Budget, Task
from ledger.pools import membership
from ledger.values.account_windows import LimitWindow
from retries import breaker_actions, sweeps
from retries.attempts import leases
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.insight import targets
from retries.models import Escalation, MetricTotal
from retries.models.figures import Measure
from retries.states import Answer
from tests.conftest import Api
from tests.dashboard.limits.shares import note_share
from tests.factories import MINUTE, make_agent, make_instruction, make_project
from tests.retries.budgets.spending import set_budget
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.retries.notifications.receivers import make_webhook, receive, run_clock
from tests.serving import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

# Metrics of PostgreSQL name the project, because a token sees those of its own.
METRICS: dict[str, tuple[str, set[str]]] = {
    "tenfour_tasks": ("gauge", {"project", "agent", "state"}),
    "tenfour_tasks_oldest_age_seconds": ("gauge", {"agent", "state"}),
    "tenfour_task_transitions": ("counter", {"project", "from", "to"}),
    "tenfour_attempts": ("counter", {"project", "agent", "outcome", "failure_type"}),
    "tenfour_attempt_duration_seconds": ("histogram", {"project", "agent", "outcome"}),
    "tenfour_task_attempts": ("histogram", {"project", "outcome"}),
    "tenfour_decisions": ("counter", {"project", "decision", "reason"}),
    "tenfour_claim_wait_seconds": ("histogram", {"project", "agent"}),
    "tenfour_target_burn": ("histogram", {"project", "agent", "type", "plan", "measure"}),
    "tenfour_claims": ("counter", {"result"}),
    "tenfour_heartbeats": ("counter", {"agent"}),
    "tenfour_leases_expired": ("counter", {"project", "agent"}),
    "tenfour_escalations_open": ("gauge", {"reason"}),
    "tenfour_escalations": ("counter", {"project", "reason", "action"}),
    "tenfour_escalation_resolution_seconds": ("histogram", {"project", "action"}),
    "tenfour_instructions": ("counter", {"project", "agent", "outcome", "urgency"}),
    "tenfour_instruction_retries": ("counter", {"project", "agent"}),
    "tenfour_instruction_ack_seconds": ("histogram", {"project", "agent", "outcome", "urgency"}),
    "tenfour_instruction_deliveries": ("histogram", {"project", "agent", "outcome", "urgency"}),
    "tenfour_instructions_waiting": ("gauge", {"project", "agent"}),
    "tenfour_dead_letters": ("gauge", {"project"}),
    "tenfour_breaker_state": ("gauge", {"project", "agent"}),
    "tenfour_account_used_ratio": ("gauge", {"project", "account", "window"}),
    "tenfour_plans_in_progress": ("gauge", {"project", "forecast"}),
    "tenfour_accounts_at_limit": ("gauge", {"project"}),
    "tenfour_task_pool_members": ("gauge", {"project", "pool", "able"}),
    "tenfour_budgets_used_up": ("gauge", {"project"}),
    "tenfour_breaker_transitions": ("counter", {"project", "agent", "to"}),
    "tenfour_webhook_deliveries": ("counter", {"event_type", "status_class"}),
    "tenfour_webhook_delivery_seconds": ("histogram", {"event_type", "status_class"}),
    "tenfour_webhook_backlog": ("gauge", {"event_type"}),
    "tenfour_http_requests": ("counter", {"op", "status_class"}),
    "tenfour_http_request_duration_seconds": ("histogram", {"op", "status_class"}),
    "tenfour_redactions": ("counter", {"kind"}),
    "tenfour_auth_failures": ("counter", {"reason"}),
    "tenfour_rate_limited": ("counter", {"policy"}),
    "tenfour_idempotent_replays": ("counter", {"op"}),
    "tenfour_beat_last_run_timestamp_seconds": ("gauge", {"job"}),
    "tenfour_clock_last_success_timestamp_seconds": ("gauge", {"entry"}),
    "tenfour_clock_failures": ("counter", {"entry"}),
    "tenfour_clock_failing": ("gauge", {"entry"}),
    "tenfour_archive_failing": ("gauge", {"entry"}),
    "tenfour_readiness": ("gauge", {"check"}),
    "tenfour_queue_length": ("gauge", {"queue"}),
    "tenfour_queue_oldest_age_seconds": ("gauge", {"queue"}),
    "tenfour_pool_waits": ("counter", set()),
    "tenfour_pool_wait_seconds": ("counter", set()),
    "tenfour_pool_timeouts": ("counter", set()),
    "tenfour_postgres_connections": ("gauge", {"state"}),
    "tenfour_postgres_connections_max": ("gauge", set()),
    "tenfour_table_bytes": ("gauge", {"table"}),
    "tenfour_table_live_rows": ("gauge", {"table"}),
    "tenfour_table_dead_rows": ("gauge", {"table"}),
    "tenfour_transaction_id_age_ratio": ("gauge", set()),
    "tenfour_build_info": ("gauge", {"version"}),
    "tenfour_host_clock_ahead_seconds": ("gauge", {"process"}),
}
# Only with a replica. The counter is there without one, and has no values.
OF_REPLICAS = {"tenfour_page_reads", "tenfour_replica_lag_seconds"}


def scrape_again(settings: Any) -> dict[str, Metric]:
    """Scrape without the cache of the last ten seconds."""
    cache.clear()
    return scrape(settings)


def scrape(settings: Any) -> dict[str, Metric]:
    settings.TENFOUR = {**settings.TENFOUR, "METRICS_ALLOW": ["127.0.0.1"]}
    text = Client().get("/metrics").content.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    # when a process first counted; several processes together do not say
    return {name: each for name, each in families.items() if not name.endswith("_created")}


def values_by(label: str, family: Metric) -> dict[str, float]:
    """Return the sums of a metric's values by one of its labels."""
    found: dict[str, float] = {}
    for sample in family.samples:
        name = sample.labels[label]
        found[name] = found.get(name, 0) + sample.value
    return found


def live_through(agent: Agent, coder: Api, operator: Api, settings: Any) -> None:
    """Let happen whatever a metric counts."""
    note_share(agent, 0.5, facts=1, now=timezone.now())
    now, stamp = timezone.now(), Stamp(SYSTEM)
    membership.create("pool", members=[agent], project=agent.project, stamp=stamp)
    for measure in Measure.values:
        targets.set_target(
            targets.Subject.of_agent(agent), percent=95, within_s=60, stamp=stamp, measure=measure
        )
    for _ in range(2):
        operator("POST", "/instructions", {"agent": "coder", "content": "x"}, Idempotency_Key="k")
    for state in ("acknowledged", "failed", "queued"):
        make_instruction(state, agent=agent)
    for ends in ("dead_letter", "escalate", "escalate"):
        make_task(agent, now=now, max_attempts=1, on_exhausted=ends)
        attempt = coder("POST", "/claims", {}).body["data"][0]["attempt"]["id"]
        assert coder("POST", f"/attempts/{attempt}/heartbeat", {}).status_code == 200
        fail(agent, attempt, now=now + MINUTE, message="password=hunter2hunter2")
    every = Escalation.objects.all()
    asked = every.filter(task__isnull=False).earliest("id")
    answering.answer(asked.pk, Choice(Answer.SKIP), among=every, stamp=stamp, channel="page")
    make_task(agent, now=now)
    attempt_of(claim(agent, now=now))
    assert leases.expire(now=now + 6 * MINUTE) == 1
    make_task(agent, now=now)
    breaker_actions.trip([agent], reason="Look", stamp=stamp)
    stranger = Client(REMOTE_ADDR="192.0.2.9", headers={"Authorization": "Bearer x"})
    for _ in range(PER_MINUTE + 1):
        stranger.get("/v1/me")


def test_every_metric_has_its_labels(
    agent: Agent, coder: Api, operator: Api, settings: Any
) -> None:
    with receive() as receiver:
        receiver.answer = 500
        settings.TENFOUR = {**settings.TENFOUR, "WEBHOOK_ALLOW": [receiver.allowed]}
        make_webhook(receiver, project=agent.project)
        live_through(agent, coder, operator, settings)
        run_clock()
    for entry in ("metrics", "journal"):
        sweeps.run(entry)
    families = scrape(settings)
    assert families.keys() - OF_REPLICAS == METRICS.keys()
    for name, (kind, labels) in METRICS.items():
        family = families[name]
        found = {frozenset(sample.labels.keys() - {"le"}) for sample in family.samples}
        assert found == {frozenset(labels)}, name
        assert family.type == kind, name


def test_the_docs_name_every_metric() -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text().partition("## Alerts")[0]
    exposed = {name + "_total" * (kind == "counter") for name, (kind, _) in METRICS.items()}
    exposed |= {"tenfour_page_reads_total", "tenfour_replica_lag_seconds"}
    assert set(re.findall(r"`(tenfour_[a-z_]+)`", text)) == exposed


def make_agents(count: int) -> list[Agent]:
    return [make_agent(f"agent-{number:02}") for number in range(count)]


def test_agents_beyond_the_busiest_are_other(settings: Any) -> None:
    agents = make_agents(TOP_AGENTS + 10)
    before = scrape(settings)["tenfour_heartbeats"]
    for agent in agents:
        make_task(agent)
        process_counters.count_heartbeat(agent.pk)
        process_counters.count_heartbeat(agent.pk)
        Breaker.objects.create(agent=agent, updated_at=timezone.now())
    # the first to close, and the only one that is open
    Breaker.objects.filter(agent=agents[0]).update(state="open", opened_at=timezone.now())
    sweeps.run("metrics")
    families = scrape_again(settings)
    for name in ("tenfour_tasks", "tenfour_tasks_oldest_age_seconds", "tenfour_heartbeats",
                 "tenfour_breaker_state"):  # fmt: skip
        found = values_by("agent", families[name])
        assert len(found) == TOP_AGENTS + 1 and "other" in found, name
    beats, old = (values_by("agent", each) for each in (families["tenfour_heartbeats"], before))
    assert sum(beats.values()) - sum(old.values()) == 2 * len(agents)
    assert beats["other"] - old.get("other", 0) == 20
    states = values_by("agent", families["tenfour_breaker_state"])
    assert (states["agent-00"], sum(states.values())) == (2, 2)


def test_accounts_with_the_least_room_have_names(settings: Any) -> None:
    now = timezone.now()
    for number, agent in enumerate(make_agents(TOP_AGENTS + 2)):
        note_share(agent, 1 - number / 100, facts=1, now=now)
        note_share(agent, 0.1, window=LimitWindow.WEEK, facts=1, now=now)
    over = make_agent("over", project=make_project("other"))
    note_share(over, 1.0, resets_in=-timedelta(hours=1), facts=1, now=now)
    families = scrape(settings)
    used = families["tenfour_account_used_ratio"]
    found = {
        each.labels["account"]: each.value
        for each in used.samples
        if each.labels["window"] == "five_hours"
    }
    assert len(found) == TOP_AGENTS + 1 and found["agent-00"] == 1
    assert found["other"] == 0.5 and "agent-50" not in found and "over" not in found
    limited = values_by("project", families["tenfour_accounts_at_limit"])
    assert limited == {"default": 1, "other": 0}


def test_budgets_that_are_used_up_are_counted(settings: Any) -> None:
    agent, now = make_agents(1)[0], timezone.now()
    make_project("other")
    for period in ("total", "day"):
        budget = set_budget(agent, period=period, now=now)
        Budget.objects.filter(pk=budget.pk).update(used=1000, reached_at=now)
    Budget.objects.filter(period="day").update(day=now.date() - timedelta(days=2))
    found = values_by("project", scrape(settings)["tenfour_budgets_used_up"])
    assert found == {"default": 1, "other": 0}


def test_agents_keep_their_names_while_their_counts_are_close(settings: Any) -> None:
    """A counter that moves between a name and `other` looks as if it had started again."""
    agents = make_agents(TOP_AGENTS + 1)

    def count(agent: Agent, n: int) -> None:
        labels = {"agent": str(agent.pk)}
        MetricTotal.objects.update_or_create(
            project=agent.project,
            metric="tenfour_leases_expired",
            labels=labels,
            bucket=0,
            defaults={"count": n, "sum": 0},
        )

    def named() -> set[str]:
        return set(values_by("agent", scrape_again(settings)["tenfour_leases_expired"]))

    for agent in agents:
        count(agent, 70)
    last = agents[-1]
    assert last.name not in named() and agents[-2].name in named()
    count(last, 100)
    assert last.name not in named()
    count(last, 300)
    assert last.name in named() and agents[-2].name not in named()


def test_a_process_remembers_a_limited_number_of_agents(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = set(process_counters._known_agents)
    monkeypatch.setattr(process_counters, "MOST_AGENTS", len(known) + 1)
    first, second = make_agents(2)
    before = values_by("agent", scrape(settings)["tenfour_heartbeats"])
    for agent in (first, second, first):
        process_counters.count_heartbeat(agent.pk)
    found = values_by("agent", scrape_again(settings)["tenfour_heartbeats"])
    assert found[first.name] == 2 and second.name not in found
    assert found["other"] - before.get("other", 0) == 1


def test_totals_that_an_earlier_version_stored_without_a_label_stay(
    agent: Agent, settings: Any
) -> None:
    MetricTotal.objects.create(
        project=agent.project,
        metric="tenfour_instruction_deliveries",
        labels={"agent": str(agent.pk), "outcome": "failed"},
        bucket=2,
        count=3,
        sum=6,
    )
    family = scrape(settings)["tenfour_instruction_deliveries"]
    counts = [each for each in family.samples if each.name.endswith("_count")]
    assert [(each.labels["urgency"], each.value) for each in counts] == [("", 3)]
    assert not Task.objects.exists()
