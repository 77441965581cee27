"""Measure moves with and without channels, in the process that makes them."""

import statistics
import time
from typing import Any

from django.db.models import Count

from bench.notifications import STORM
from ledger import tasks
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Project
from ledger.tasks.spec import Spec
from retries.models import Channel, Delivery
from retries.models.notification_channel import ChannelKind, DisabledBecause
from retries.notifications import channels
from retries.notifications.channels import ChannelSpec
from retries.notifications.rules import editing as rules
from retries.notifications.rules.editing import NotificationRuleSpec

PAUSE_S = 0.02
BATCH = 500
LONGEST_WAIT_S = 900


def measure(url: str, rounds: int, moves: int) -> dict[str, Any]:
    """Measure moves, the way from a move to its webhook, and a storm of events."""
    agent = Agent.objects.select_related("project").order_by("name")[0]
    spec = ChannelSpec(kind=ChannelKind.WEBHOOK, name="mirror", url=url, events=("task.created",))
    webhook = channels.create_channel(spec, project=agent.project, stamp=Stamp(SYSTEM)).channel
    measure_moves(agent, moves)  # warm up
    without, with_ = [], []
    for _ in range(rounds):
        channels.disable_channel(webhook.pk, DisabledBecause.BY_HAND, stamp=Stamp(SYSTEM))
        without.append(measure_moves(agent, moves))
        channels.enable_channel(webhook.pk, stamp=Stamp(SYSTEM))
        with_.append(measure_moves(agent, moves))
    wait_until_sent(webhook)
    commits = {}
    for _ in range(moves):
        id, _, at = move(agent)
        commits[id] = at
        time.sleep(0.05)
    wait_until_sent(webhook)
    host = url.removeprefix("http://").partition("/")[0]
    notify_person(f"ntfy://{host}/storm", agent.project)
    return {
        "without_ms": without,
        "with_ms": with_,
        "commits": commits,
        "storm_s": measure_storm(agent, webhook),
        "states": count_deliveries(),
    }


def move(agent: Agent) -> tuple[str, float, float]:
    """Enqueue a task; return its id, the milliseconds, and the time of the commit."""
    start = time.perf_counter()
    id = tasks.enqueue(agent, "bench")
    return str(id), (time.perf_counter() - start) * 1000, time.time()


def measure_moves(agent: Agent, moves: int) -> float:
    """Return the median milliseconds of a move."""
    found = []
    for _ in range(moves):
        found.append(move(agent)[1])
        time.sleep(PAUSE_S)
    return statistics.median(found)


def wait_until_sent(webhook: Channel) -> None:
    end = time.monotonic() + LONGEST_WAIT_S
    # the reader of the journal may not have seen the last moves yet
    time.sleep(3)
    while Delivery.objects.filter(channel=webhook).unsettled().exists() and time.monotonic() < end:
        time.sleep(0.2)


def notify_person(url: str, project: Project) -> None:
    """Add a person's channel, and a rule with a cap that sends it new tasks."""
    spec = ChannelSpec(kind=ChannelKind.PERSON, name="on-call", url=url)
    person = channels.create_channel(spec, project=project, stamp=Stamp(SYSTEM)).channel
    rule = NotificationRuleSpec(conditions=("task.created",), channel=person, cap_per_hour=10)
    rules.create_rule(rule, project=project, stamp=Stamp(SYSTEM))


def measure_storm(agent: Agent, webhook: Channel) -> float:
    """Enqueue STORM tasks at once; return the seconds until all webhooks are sent."""
    before = Delivery.objects.filter(channel=webhook).count()
    started = time.monotonic()
    for _ in range(STORM // BATCH):
        tasks.enqueue_many([(agent, Spec(type="bench", payload={}))] * BATCH, stamp=Stamp(SYSTEM))
    while Delivery.objects.filter(channel=webhook).count() < before + STORM:
        time.sleep(0.2)
    wait_until_sent(webhook)
    return time.monotonic() - started


def count_deliveries() -> dict[str, int]:
    """Return the number of deliveries by the channel's kind and their state."""
    counts = Delivery.objects.order_by().values_list("channel__kind", "state").annotate(Count("id"))
    return {f"{kind} {state}": count for kind, state, count in counts}
