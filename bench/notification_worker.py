"""Make moves with and without channels, and print their times as JSON."""

import json
import statistics
import sys
import time
from typing import Any

import django

PAUSE_S = 0.02
STORM = 10_000


def main(url: str, rounds: int, moves: int) -> None:
    django.setup()

    from django.db.models import Count

    from ledger import tasks
    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Agent, Project
    from ledger.tasks.spec import Spec
    from retries.models import Delivery
    from retries.models.notification_channel import ChannelKind, DisabledBecause
    from retries.notifications import channels, rules
    from retries.notifications.channels import ChannelSpec
    from retries.notifications.rules import NotificationRuleSpec

    stamp = Stamp(SYSTEM)
    agent = Agent.objects.select_related("project").order_by("name")[0]
    project: Project = agent.project

    def create(kind: ChannelKind, name: str, url: str, **more: Any) -> Any:
        spec = ChannelSpec(kind=kind, name=name, url=url, **more)
        return channels.create_channel(spec, project=project, stamp=Stamp(SYSTEM)).channel

    webhook = create(ChannelKind.WEBHOOK, "mirror", url, events=("task.created",))

    def move() -> tuple[str, float, float]:
        """Enqueue a task; return its id, the milliseconds, and the time of the commit."""
        start = time.perf_counter()
        id = tasks.enqueue(agent, "bench")
        return str(id), (time.perf_counter() - start) * 1000, time.time()

    def median_ms() -> float:
        found = []
        for _ in range(moves):
            found.append(move()[1])
            time.sleep(PAUSE_S)
        return statistics.median(found)

    def wait_until_sent() -> None:
        end = time.monotonic() + 900
        # the reader of the journal may not have seen the last moves yet
        time.sleep(3)
        while (
            Delivery.objects.filter(channel=webhook).unsettled().exists() and time.monotonic() < end
        ):
            time.sleep(0.2)

    median_ms()  # warm up
    without, with_ = [], []
    for _ in range(rounds):
        channels.disable_channel(webhook.pk, DisabledBecause.BY_HAND, stamp=stamp)
        without.append(median_ms())
        channels.enable_channel(webhook.pk, stamp=Stamp(SYSTEM))
        with_.append(median_ms())
    wait_until_sent()
    commits = {}
    for _ in range(moves):
        id, _, at = move()
        commits[id] = at
        time.sleep(0.05)
    wait_until_sent()
    parts = url.removeprefix("http://").partition("/")[0]
    person = create(ChannelKind.PERSON, "on-call", f"ntfy://{parts}/storm")
    rules.create_rule(
        NotificationRuleSpec(conditions=("task.created",), channel=person, cap_per_hour=10),
        project=project,
        stamp=Stamp(SYSTEM),
    )
    before = Delivery.objects.filter(channel=webhook).count()
    started = time.monotonic()
    for _ in range(STORM // 500):
        tasks.enqueue_many([(agent, Spec(type="bench", payload={}))] * 500, stamp=Stamp(SYSTEM))
    while Delivery.objects.filter(channel=webhook).count() < before + STORM:
        time.sleep(0.2)
    wait_until_sent()
    states = {
        f"{kind} {state}": count
        for kind, state, count in Delivery.objects.order_by()
        .values_list("channel__kind", "state")
        .annotate(Count("id"))
    }
    print(
        json.dumps(
            {
                "without_ms": without,
                "with_ms": with_,
                "commits": commits,
                "storm_s": time.monotonic() - started,
                "states": states,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
