"""The instruction demo: three agents; one ignores every instruction."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from math import isinf
from typing import Any, Literal

from tenfour import Instruction

from config.demo.demo_project import DEMO, Stage
from ledger import agents
from ledger.journal import Stamp
from ledger.models import Instruction as Sent
from ledger.models import Project
from retries.escalations.answering import answer
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import AlreadyResolved
from retries.models import Escalation
from retries.reminders import ReminderCounts, retry_unacknowledged
from retries.states import Answer, Reason

NAMES = ("steady", "picky", "deaf")
# Twelve times as fast as the real clock; an agent has the time to answer in between.
TICK_S = 5.0
MIN_AGE = timedelta(seconds=2)
PULL_S = 0.8
# An endless demo leaves this many of its questions to a person, and skips the older ones.
MOST_OPEN = 5
# After this long everything is settled and a longer demo begins again.
ROUND_S = 50.0


@dataclass(frozen=True)
class Order:
    """An instruction of the demo: its agent, when it is sent, and the command that it asks for."""

    at_s: float
    agent: str
    line: str
    max_retries: int = 3
    priority: bool = False
    on_failed: Literal["record", "escalate"] = "record"

    @property
    def content(self) -> str:
        return f"Run `{self.line}` and say what you found."

    @property
    def expect(self) -> dict[str, Any]:
        return {"type": "fs_command", "match": {"line": self.line}}


# One for the deaf agent right after each tick: they climb one behind the other, so that the page
# shows every level of urgency at the same time.
ORDERS = (
    Order(0.5, "deaf", "df -h .", on_failed="escalate"),
    Order(1, "picky", "git --version"),
    Order(2, "steady", "python3 --version"),
    Order(5.5, "deaf", "uptime"),
    Order(7, "steady", "uname -sr"),
    Order(10.5, "deaf", "nproc"),
    Order(11, "picky", "date -u"),
    Order(15.5, "deaf", "uname -sr"),
    Order(17, "steady", "nproc", priority=True),
    Order(20.5, "deaf", "git --version", max_retries=2),
    Order(21, "picky", "df -h ."),
    Order(22, "steady", "openspec --version"),
)


def rounds(*, until_s: float) -> Iterator[Order]:
    numbers = count() if isinf(until_s) else range(max(1, int((until_s + 1) // ROUND_S)))
    for number in numbers:
        for order in ORDERS:
            yield replace(order, at_s=order.at_s + number * ROUND_S)
    yield Order(float("inf"), "", "")


@dataclass
class Orders:
    """Sends instructions when they are due and runs the idle check; `speed` is a factor."""

    stage: Stage
    speed: float
    until_s: float
    report: Callable[[str], None]
    sent: list[Instruction] = field(default_factory=list)
    ticked: float = 0.0

    def begin(self) -> None:
        for name in NAMES:
            agent = agents.register(name, project=self.stage.project, stamp=Stamp(DEMO))
            # Remains of an interrupted demo would acknowledge the instructions of this one.
            agents.reset(agent, stamp=Stamp(DEMO))
            self.stage.play(name, "agents.py", "--every", str(PULL_S / self.speed))
        self.schedule = rounds(until_s=self.until_s)
        self.due = next(self.schedule)

    def look(self, elapsed: float) -> None:
        while self.due.at_s <= elapsed:
            self.sent.append(self.send(self.due))
            self.due = next(self.schedule)
        if elapsed - self.ticked >= TICK_S:
            self.ticked += TICK_S
            done = retry_unacknowledged(project=self.stage.project, min_age=MIN_AGE / self.speed)
            skip_older_questions(self.stage.project)
            if done != ReminderCounts():
                said = f"{done.requeued} reminded, {done.given_up} failed"
                self.report(f"clock  | idle check at {elapsed:.0f} s: {said}")

    def send(self, order: Order) -> Instruction:
        self.report(f"demo   | to {order.agent}: {order.content}")
        return self.stage.tenfour.instructions.send(
            order.agent,
            order.content,
            expect=order.expect,
            max_retries=order.max_retries,
            priority=order.priority,
            on_failed=order.on_failed,
        )

    @property
    def is_over(self) -> bool:
        return not Sent.objects.filter(project=self.stage.project).awaiting_ack().exists()

    def sum_up(self) -> None:
        self.report(f"\n{'agent':<8}{'state':<14}{'deliveries':<12}{'last level':<11}instruction")
        fates = [self.stage.tenfour.instructions.get(each.id) for each in self.sent]
        for now in fates:
            self.report(
                f"{now.agent:<8}{now.state:<14}{now.deliveries:<12}{now.urgency:<11}{now.content}"
            )
        counts = Counter(now.state for now in fates)
        self.report(", ".join(f"{number} {state}" for state, number in sorted(counts.items())))


def skip_older_questions(project: Project) -> None:
    ignored = Escalation.objects.open().filter(project=project, reason=Reason.INSTRUCTION_IGNORED)
    skip = Choice(Answer.SKIP, note="The demo skips its older questions.")
    for each in ignored.order_by("-id")[MOST_OPEN:]:
        with suppress(AlreadyResolved):
            answer(each.pk, skip, among=ignored, stamp=Stamp(DEMO), channel="demo")
