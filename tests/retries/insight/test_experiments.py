"""Experiments on the retry context: an A/A run shows nothing, and a planted effect is found."""

import hashlib
from collections import Counter
from random import Random
from typing import Any
from uuid import UUID

import pytest

from ledger.errors import Invalid, InvalidTransition
from ledger.journal import Stamp
from ledger.models import Agent, Attempt, Event, Task
from retries import sweeps
from retries.insight import experiments
from retries.insight.intervals import newcombe_difference
from retries.models import ContextExperiment
from retries.retry_context.block import History, find_variant, render_retry_context
from retries.retry_context.failure_elements import FailureRecord
from retries.retry_context.trials import Trial, is_without
from retries.states import ContextElement
from tests.dashboard.worked import MARA
from tests.factories import NOW
from tests.retries.api.calls import claim

TASKS, SEEDS = 540, 400
MISSING = "ModuleNotFoundError: No module named 'polars'"


def random_id(random: Random) -> UUID:
    return UUID(int=random.getrandbits(128), version=4)


def test_an_a_a_run_shows_nothing() -> None:
    """Many experiments without an effect: about one in twenty gives a false alarm."""
    random, alarms = Random(15), 0
    for _ in range(SEEDS):
        experiment = random_id(random)
        counts = {False: [0, 0], True: [0, 0]}
        for _ in range(TASKS * 2):
            side = counts[is_without(experiment, random_id(random), share=10)]
            side[0] += random.random() < 0.7
            side[1] += 1
        assert 0.06 < counts[True][1] / (TASKS * 2) < 0.15
        alarms += newcombe_difference(*counts[True], *counts[False]).is_conclusive
    assert 0.025 < alarms / SEEDS < 0.08, alarms


def fail(coder: Any, claimed: dict[str, Any], **more: Any) -> None:
    body = {
        "status": "failure",
        # A failing test is not the fault of the agent: its breaker stays closed.
        "failure": {"type": "verification_failed", "message": "a test failed"},
        "verification": {"command": "pytest", "exit_code": 1, "output": MISSING},
    }
    path = f"/attempts/{claimed['attempt']['id']}/result"
    assert coder("POST", path, body | more).status_code == 200


@pytest.mark.django_db
def test_a_planted_effect_is_found(agent: Agent, coder: Any, operator: Any) -> None:
    """An agent that does better with learnings, on real tasks, claims and reports."""
    experiment = experiments.start_experiment(
        agent.project,
        "accumulated_learnings",
        share=40,
        reason="do they help?",
        stamp=Stamp(MARA, NOW),
    )
    for _ in range(3):
        rows = [{"agent": "coder", "type": "code"}] * 80
        assert operator("POST", "/tasks/bulk", {"tasks": rows}).status_code == 201
    ids = list(Task.objects.values_list("id", flat=True))
    sides: dict[bool, list[UUID]] = {False: [], True: []}
    for id in ids:
        sides[is_without(experiment.pk, id, share=experiment.share)].append(id)
    assert 64 <= len(sides[True]) <= 126  # 96, within four standard deviations
    # The agent works on a part of them, to save time; its luck on each side has its own seed.
    for is_out, most, seed in ((False, 114, 1), (True, 64, 2)):
        random = Random(seed)
        for number, id in enumerate(sides[is_out][:most]):
            learnings = ["install polars first"] if number >= 4 else []
            fail(coder, claim(coder, task=str(id))["data"][0], learnings=learnings)
            Task.objects.filter(pk=id).update(due_at=NOW)
            second = claim(coder, task=str(id))["data"][0]
            knows = "install polars first" in second["retry_context"]
            assert knows == (bool(learnings) and not is_out)
            if random.random() < (0.85 if knows else 0.45):
                path = f"/attempts/{second['attempt']['id']}/result"
                assert coder("POST", path, {"status": "success"}).status_code == 200
            else:
                fail(coder, second)
    seconds = Attempt.objects.filter(number=2, context_variant__startswith="with:")
    successes = seconds.filter(outcome="success").count()
    # A later attempt depends on how the first one ended, and does not count.
    again = list(Task.objects.filter(state="retry").values_list("id", flat=True)[:9])
    Task.objects.filter(pk__in=again).update(due_at=NOW)
    for id in again:
        path = f"/attempts/{claim(coder, task=str(id))['data'][0]['attempt']['id']}/result"
        assert coder("POST", path, {"status": "success"}).status_code == 200
    sweeps.run("insight")
    experiment.refresh_from_db()
    assert experiment.with_successes == successes
    told = Counter(Attempt.objects.filter(number=2).values_list("context_variant", flat=True))
    # A task without learnings is told the same on both sides, and does not count.
    counts = {"with:accumulated_learnings": 110, "without:accumulated_learnings": 60, "default": 8}
    assert told == counts
    assert (experiment.with_attempts, experiment.without_attempts) == (110, 60)
    difference = experiments.measure_difference(experiment)
    assert difference and difference.is_conclusive
    assert difference.low < -0.4 < difference.high


@pytest.mark.django_db
def test_an_experiment_is_started_and_ended_with_a_reason(agent: Agent) -> None:
    stamp = Stamp(MARA, NOW)
    with pytest.raises(Invalid, match="reason"):
        experiments.start_experiment(agent.project, "known", reason=" ", stamp=stamp)
    with pytest.raises(Invalid, match="no element"):
        experiments.start_experiment(agent.project, "all", reason="so", stamp=stamp)
    for share in (0, 51):
        with pytest.raises(Invalid, match="from 1 to 50"):
            experiments.start_experiment(
                agent.project, "known", share=share, reason="so", stamp=stamp
            )
    assert not ContextExperiment.objects.exists()  # off by default
    one = experiments.start_experiment(agent.project, "known", reason="so", stamp=stamp)
    with pytest.raises(InvalidTransition, match="End it first"):
        experiments.start_experiment(agent.project, "standing", reason="so", stamp=stamp)
    experiments.end_experiment(one.pk, reason="enough", stamp=stamp)
    with pytest.raises(InvalidTransition, match="ended already"):
        experiments.end_experiment(one.pk, reason="enough", stamp=stamp)
    told = Event.objects.filter(kind__startswith="project.experiment").order_by("id")
    assert [(each.kind, each.actor_name, each.data["reason"]) for each in told] == [
        ("project.experiment_started", "mara", "so"),
        ("project.experiment_ended", "mara", "enough"),
    ]
    assert experiments.measure_difference(one) is None  # too few attempts


def failure(attempt: int) -> FailureRecord:
    lines = [f"step {number} is done" for number in range(2_000)]
    lines[1_000] = MISSING
    return FailureRecord(
        attempt=attempt,
        at=NOW,
        type="verification_failed",
        verification={"command": "pytest", "exit_code": 1, "output": "\n".join(lines)},
        learnings=["install polars first"],
    )


@pytest.mark.parametrize("element", ContextElement.values)
def test_each_element_can_be_left_out(element: str) -> None:
    marks = {
        "standing": "<standing>",
        "known": "<known ",
        "accumulated_learnings": "- install polars first",
        "windows": "step 999 is done",
    }
    failures = [failure(1), failure(2)]
    told = {}
    for side in (False, True):
        history = History(failures=failures, trial=Trial(element, side))
        told[side] = text = render_retry_context(history, attempt=3, max_attempts=4)
        variant = find_variant(history, text, attempt=3, max_attempts=4)
        assert variant == f"{'without' if side else 'with'}:{element}"
        assert MISSING in text  # the summary keeps it
    for name, mark in marks.items():
        assert mark in told[False]
        assert (mark in told[True]) == (name != element)
    assert (told[False] == told[True]) == (element == "nothing")
    # Where the element makes no difference, the attempt is on no side.
    plain = History(failures=[], fix="Trim it", trial=Trial(element, True))
    text = render_retry_context(plain, attempt=2, max_attempts=4)
    expected = "without:nothing" if element == "nothing" else "default"
    assert find_variant(plain, text, attempt=2, max_attempts=4) == expected


@pytest.mark.parametrize("share", [1, 10, 20, 50])
def test_a_task_stays_on_its_side(share: int) -> None:
    random = Random(1)
    experiment, tasks = random_id(random), [random_id(random) for _ in range(5_000)]
    sides = [is_without(experiment, task, share=share) for task in tasks]
    assert sides == [is_without(experiment, task, share=share) for task in tasks]
    assert abs(sum(sides) / len(sides) - share / 100) < 0.015
    assert sides != [is_without(random_id(random), task, share=share) for task in tasks]


def test_experiments_of_a_tenth_keep_the_sides_that_they_had_before_shares() -> None:
    random = Random(1)
    experiment, tasks = random_id(random), [random_id(random) for _ in range(1_000)]
    for task in tasks:
        digest = hashlib.sha256(experiment.bytes + task.bytes).digest()
        was_without = int.from_bytes(digest[:8]) % 10 == 0
        assert is_without(experiment, task, share=10) == was_without


@pytest.mark.parametrize("share", [10, 20, 50])
@pytest.mark.parametrize("points", experiments.POINTS)
def test_the_tasks_named_before_the_start_find_the_difference(share: int, points: int) -> None:
    """Simulated with the interval that the page shows: four of five experiments are conclusive."""
    random, found, runs = Random(share * points), 0, 300
    needed = experiments.list_needed(share)[points]
    shares = (0.5 - points / 200, 0.5 + points / 200)
    sizes = (round(needed * share / 100), needed - round(needed * share / 100))
    for _ in range(runs):
        counts = [
            (sum(random.random() < each for _ in range(size)), size)
            for each, size in zip(shares, sizes, strict=True)
        ]
        found += newcombe_difference(*counts[0], *counts[1]).is_conclusive
    assert 0.7 < found / runs < 0.93
