"""Run simulated fleets against the ledger for the suite `fleets`: `COUNT SECONDS`; a JSON line each.

An account's window of five hours, or its week, begins with its first work and holds so much work.
What its agents run when it is full is refused at their next call. Agents ask for work as long
after each other as the ledger tells them to.
"""

import heapq
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from math import exp, inf, log
from typing import Any
from uuid import UUID

import django

HOUR = 3600.0
LENGTHS = {"five_hours": 5 * HOUR, "week": 7 * 24 * HOUR}
CLAUDE_NAMES = {"five_hours": "five_hour", "week": "seven_day"}
CODEX_MINUTES = {"five_hours": 300, "week": 10_080}
FORMS = ("claude", "codex", "message", "none")
BEAT_S = 600.0
LATEST_REFUSAL_S = 20.0  # an attempt that runs makes its next call by then
CHECKED = 20  # of so many requests that must be empty, one is made
FAILING = 0.1
SESSION = "You've hit your session limit · resets {at:%I:%M%p} (UTC)"
WEEKLY = "You've hit your weekly limit · resets {at:%b %d} at {at:%I:%M%p} (UTC)"
USED_UP = (
    "You've hit your usage limit. Upgrade to Pro or try again in {days} days {hours} hours "
    "{minutes} minutes."
)


@dataclass
class Window:
    """A window of an account: how much work it holds, and how much of it is used."""

    name: str
    holds_s: float
    ends: float = -inf
    used_s: float = 0.0

    def begin(self, now: float) -> None:
        if now >= self.ends:
            # Resets are told to the minute.
            self.ends, self.used_s = now // 60 * 60 + LENGTHS[self.name], 0.0

    def is_full(self, now: float) -> bool:
        return now < self.ends and self.used_s >= self.holds_s - 1e-6


@dataclass
class Account:
    name: str
    form: str
    windows: list[Window]
    running: set["Run"] = field(default_factory=set)
    version: int = 0
    idle_s: float = 0.0
    busy_s: float = 0.0
    limits: int = 0

    def full(self, now: float) -> list[Window]:
        return [each for each in self.windows if each.is_full(now)]


@dataclass
class Worker:
    """One agent's name, with what each of its processes does."""

    id: UUID
    agent: Any
    account: Account
    caller: Any
    slots: int
    busy: int = 0
    worked_at: float = 0.0


@dataclass(eq=False)
class Job:
    id: UUID
    worker: Worker
    left_s: float
    unmet: int
    dependents: list["Job"] = field(default_factory=list)
    due: float = 0.0
    is_open: bool = True
    is_running: bool = False


@dataclass(eq=False)
class Run:
    job: Job
    attempt: UUID
    slot: str
    started: float
    is_refused: bool = False


class Fleet:
    """One project's agents and tasks, stepped from one thing that happens to the next."""

    def __init__(self, number: int) -> None:
        self.number, self.rng = number, random.Random(f"fleet:{number}")
        self.counts = dict.fromkeys(("claims", "done", "over", "open"), 0)
        self.events: list[tuple[float, int, str, Any]] = []
        self.order = count()
        self.now = 0.0
        self.build()

    def build(self) -> None:
        from ledger import accounts, agents, tokens
        from ledger.database import server_time
        from ledger.journal import SYSTEM, Stamp
        from ledger.models import Project, Token
        from ledger.tasks import Spec, enqueue_many
        from ledger.tokens import Bearer

        rng = self.rng
        # Ids are of now, and a wait is compared with them: no reset may lie ahead of the clock.
        self.start = server_time.now() - timedelta(days=30)
        self.start = self.start.replace(second=0, microsecond=0)
        stamp = Stamp(SYSTEM, self.start)
        project = Project.objects.create(name=f"fleet-{self.number}")
        self.accounts = [self.make_account(n) for n in range(rng.randint(1, 3))]
        self.workers = []
        for n in range(rng.randint(2, 5)):
            agent = agents.register(f"agent-{n}", project=project, stamp=stamp)
            account = self.accounts[n % len(self.accounts)]
            token, secret = accounts.issue_token(
                "agent",
                account=account.name,
                agent=agent,
                stamp=stamp,
                project=project,
                name=f"t{self.number}-{n}",
                days=365,
            )
            Token.objects.filter(pk=token.pk).update(created_at=self.start)
            caller = Bearer(tokens.digest_of(secret), "tasks:work")
            self.workers.append(Worker(agent.pk, agent, account, caller, rng.randint(1, 3)))
        length = rng.lognormvariate(log(1200), 0.6)
        specs, jobs = [], []
        for place in range(rng.randint(20, 60)):
            worker = rng.choice(self.workers)
            after = rng.sample(range(place), min(place, rng.choice((0, 0, 0, 1, 1, 2))))
            spec = Spec(type="bench", payload={}, after=after, max_attempts=50, timeout_s=604_800)
            specs.append((worker.agent, spec))
            job = Job(UUID(int=0), worker, length * exp(rng.gauss(0, 0.7)) + 30, len(after))
            for need in after:
                jobs[need].dependents.append(job)
            jobs.append(job)
        for job, row in zip(jobs, enqueue_many(specs, stamp=stamp), strict=True):
            job.id = row["id"]
        self.jobs = {job.id: job for job in jobs}
        for worker in self.workers:
            for n in range(worker.slots):
                self.add(rng.uniform(0, 2), "poll", (worker, f"slot-{n}"))

    def make_account(self, number: int) -> Account:
        form = FORMS[(self.number + number) % len(FORMS)]
        windows = []
        if form != "none":
            windows.append(Window("five_hours", self.rng.uniform(0.3, 3) * HOUR * 4))
            if form != "message" and self.rng.random() < 0.3:
                windows.append(Window("week", self.rng.uniform(3, 8) * HOUR * 4))
        return Account(f"account-{number}", form, windows)

    def at(self, seconds: float) -> datetime:
        return self.start + timedelta(seconds=seconds)

    def seconds(self, at: datetime) -> float:
        return (at - self.start).total_seconds()

    def add(self, at: float, kind: str, about: Any) -> None:
        heapq.heappush(self.events, (at, next(self.order), kind, about))

    # ---- time

    def run(self) -> dict[str, Any]:
        while self.events and any(job.is_open for job in self.jobs.values()):
            at, _, kind, about = heapq.heappop(self.events)
            self.advance(at)
            getattr(self, kind)(*about)
        self.counts["open"] = sum(job.is_open for job in self.jobs.values())
        sums = {
            name: sum(getattr(each, name) for each in self.accounts)
            for name in ("idle_s", "busy_s")
        }
        shown = defaultdict(list, {form: [] for form in FORMS})
        for each in self.accounts:
            shown[each.form].append(
                {"idle_s": each.idle_s, "busy_s": each.busy_s, "limits": each.limits}
            )
        return {**self.counts, **sums, **shown, "counts": [*self.counts, *sums]}

    def advance(self, to: float) -> None:
        """Count what the agents did until then; they use up their accounts' windows."""
        # A window that resets in between splits the time.
        ends = [w.ends for a in self.accounts for w in a.windows if self.now < w.ends < to]
        for until in [*sorted(set(ends)), to]:
            passed = until - self.now
            for account in self.accounts:
                working = [run for run in account.running if not run.is_refused]
                account.busy_s += passed * len(working)
                for window in account.windows:
                    window.used_s += passed * len(working)
                for run in working:
                    run.job.left_s -= passed
            for worker in self.workers:
                if not worker.account.full(self.now):
                    due = len(self.list_due(worker))
                    worker.account.idle_s += passed * min(worker.slots - worker.busy, due)
            self.now = until
            for account in self.accounts:
                if account.running and any(window.ends <= until for window in account.windows):
                    self.plan_limit(account)

    def list_due(self, worker: Worker) -> list[Job]:
        return [
            job
            for job in self.jobs.values()
            if job.worker is worker
            and job.is_open
            and not job.is_running
            and not job.unmet
            and job.due <= self.now
        ]

    def plan_limit(self, account: Account) -> None:
        """Note when the account's windows will be full, with what runs now."""
        account.version += 1
        working = sum(not run.is_refused for run in account.running)
        if not working:
            return
        for window in account.windows:
            window.begin(self.now)
        left = min((w.holds_s - w.used_s for w in account.windows), default=inf)
        if left < inf:
            self.add(self.now + max(left, 0) / working, "reach_limit", (account, account.version))
        resets = min((w.ends for w in account.windows), default=inf)
        if resets < inf:
            self.add(resets, "pass_reset", (account, account.version))
        for run in account.running:
            if not run.is_refused:
                self.add(self.now + max(run.job.left_s, 0), "end", (run, account.version))

    # ---- what happens

    def pass_reset(self, account: Account, version: int) -> None:
        if version == account.version:
            self.plan_limit(account)

    def poll(self, worker: Worker, slot: str) -> None:
        from ledger.values.poll_waits import compute_poll_wait
        from retries import claims

        due = self.list_due(worker)
        if not due and self.rng.randrange(CHECKED):
            wait = compute_poll_wait(int(self.now - worker.worked_at))
            self.add(self.now + wait, "poll", (worker, slot))
            return
        found = claims.claim(worker.caller, worker_id=slot, now=self.at(self.now))
        self.counts["claims"] += 1
        if not found.rows:
            self.add(self.now + max(found.retry_after_s, 1), "poll", (worker, slot))
            return
        job = self.jobs[found.rows[0]["id"]]
        if job not in due:
            raise AssertionError(f"fleet {self.number}: the task {job.id} was not due")
        account = worker.account
        self.counts["over"] += bool(account.full(self.now))
        job.is_running, worker.worked_at = True, self.now
        worker.busy += 1
        run = Run(job, found.rows[0]["attempt_id"], slot, self.now)
        account.running.add(run)
        self.plan_limit(account)
        self.add(self.now + BEAT_S * self.rng.random(), "beat", (run,))
        self.beat(run)

    def beat(self, run: Run) -> None:
        from ledger.sessions.limit_records import note_records
        from retries.attempts import heartbeats

        account, now = run.job.worker.account, self.at(self.now)
        if run not in account.running or run.is_refused:
            return
        caller = run.job.worker.caller
        heartbeats.renew_lease(run.attempt, caller=caller, extend_s=86_400, now=now)
        note_records(run.job.worker.id, self.records(account, full=None), caller=caller, now=now)
        self.add(self.now + BEAT_S, "beat", (run,))

    def records(self, account: Account, *, full: Window | None) -> Iterator[dict[str, Any]]:
        """Yield what the account's program records of its windows."""
        shares = {w.name: min(w.used_s / w.holds_s, 0.99) for w in account.windows}
        ends = {w.name: int(self.at(w.ends).timestamp()) for w in account.windows}
        if account.form == "claude":
            info: dict[str, Any] = {
                "status": "rejected" if full else "allowed",
                "rateLimitType": CLAUDE_NAMES[full.name if full else "five_hours"],
                "resetsAt": ends[full.name if full else "five_hours"],
                "utilization": None if full else shares["five_hours"],
                "unifiedWindows": {
                    CLAUDE_NAMES[name]: {
                        "utilization": share,
                        "resetsAt": ends[name],
                        "status": "rejected" if full and name == full.name else "allowed",
                    }
                    for name, share in shares.items()
                },
            }
            yield {"type": "rate_limit_event", "rate_limit_info": info}
        elif account.form == "codex":
            limits: dict[str, Any] = {"limit_id": "codex", "primary": None, "secondary": None}
            for place, name in (("primary", "five_hours"), ("secondary", "week")):
                if name in shares:
                    used = 100.0 if full and name == full.name else 100 * shares[name]
                    limits[place] = {
                        "used_percent": used,
                        "window_minutes": CODEX_MINUTES[name],
                        "resets_at": ends[name],
                    }
            if full:
                limits["rate_limit_reached_type"] = "rate_limit_reached"
            payload = {"type": "token_count", "info": None, "rate_limits": limits}
            yield {"type": "event_msg", "payload": payload}
            if full:
                error = {"codex_error_info": "usage_limit_exceeded", "message": "Limit reached."}
                yield {"type": "event_msg", "payload": {"type": "task_complete", "error": error}}

    def reach_limit(self, account: Account, version: int) -> None:
        if version != account.version:
            return
        if not account.full(self.now):
            self.plan_limit(account)
            return
        account.limits += 1
        account.version += 1
        working = sorted(
            (run for run in account.running if not run.is_refused), key=lambda run: run.attempt
        )
        for place, run in enumerate(working):
            run.is_refused = True
            later = self.rng.uniform(0, LATEST_REFUSAL_S) if place else 0.0
            if place:
                self.add(self.now + later, "refuse", (run,))
            else:
                self.refuse(run)

    def refuse(self, run: Run) -> None:
        from ledger.sessions.limit_records import note_records

        worker = run.job.worker
        account = worker.account
        full = max(account.full(self.now), key=lambda each: each.ends, default=None)
        if full is None:  # it was reset meanwhile, and the call passes
            run.is_refused = False
            self.plan_limit(account)
            return
        records = self.records(account, full=full)
        note_records(worker.id, records, caller=worker.caller, now=self.at(self.now))
        self.report(run, status="failure", message=self.word_limit(account, full))

    def word_limit(self, account: Account, full: Window) -> str:
        if account.form == "codex":
            minutes = int(full.ends - self.now) // 60
            hours, days = minutes // 60 % 24, minutes // 1440
            return USED_UP.format(days=days, hours=hours, minutes=minutes % 60)
        form = SESSION if full.name == "five_hours" else WEEKLY
        return form.format(at=self.at(full.ends).astimezone(UTC))

    def end(self, run: Run, version: int) -> None:
        account = run.job.worker.account
        if version != account.version or run.is_refused or run not in account.running:
            return
        if run.job.left_s > 1e-3:
            self.plan_limit(account)
        elif self.rng.random() < FAILING:
            run.job.left_s = self.rng.uniform(60, 1200)
            self.report(run, status="failure", message="AssertionError: 3 != 4", exit_code=1)
        else:
            self.report(run, status="success")

    def report(self, run: Run, **said: Any) -> None:
        from ledger.states import FailureType
        from retries.attempts.finishing import finish_attempt
        from retries.attempts.report_fields import Report

        job, worker = run.job, run.job.worker
        if said.pop("exit_code", 0):
            said["type"] = FailureType.VERIFICATION_FAILED
        reply = finish_attempt(
            run.attempt, Report(**said), caller=worker.caller, now=self.at(self.now)
        ).decision
        worker.account.running.discard(run)
        worker.busy -= 1
        worker.worked_at = self.now
        job.is_running = False
        if reply["decision"] == "done":
            job.is_open = False
            self.counts["done"] += 1
            for each in job.dependents:
                each.unmet -= 1
        elif reply["decision"] == "wait":
            due = datetime.fromisoformat(reply["not_before"])
            job.due = max(self.seconds(due), self.now)
        else:
            raise AssertionError(f"fleet {self.number}: {reply}")
        self.plan_limit(worker.account)
        self.add(self.now + 0.5, "poll", (worker, run.slot))


def main(fleets: str, most_s: str) -> None:
    django.setup()
    until = time.monotonic() + float(most_s)
    for number in range(int(fleets)):
        if time.monotonic() > until:
            break
        print(json.dumps(Fleet(number).run()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
