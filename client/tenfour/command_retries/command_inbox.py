"""Have a command confirmed by a person in Tenfour: a task asks, and runs once it is answered."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tenfour.attempts.claiming import NoWork
from tenfour.cli_retries import CommandLine, Rules, name_of, run_with_reports
from tenfour.command_retries.cli_reports import TaskReports, create_task
from tenfour.command_retries.conversations import Pending
from tenfour.http.problems import TenfourError
from tenfour.log import log
from tenfour.results import ChangedVerb, Err, Result

if TYPE_CHECKING:
    from tenfour.attempts.live_attempts import LiveAttempt
    from tenfour.client import Client
    from tenfour.models import Escalation

RUN, CANCEL = "run", "cancel"
OPTIONS = [{"name": RUN, "title": "Run the command"}, {"name": CANCEL, "title": "Do not run it"}]


class CommandInbox:
    """Asks about commands, and runs those that a person allowed."""

    def __init__(self, client: Client, cli: CommandLine, rules: Rules) -> None:
        self._client = client
        self._cli = cli
        self._rules = rules

    def ask(self, args: Sequence[str], why: str) -> Pending:
        """Ask whether a command may run; raises TenfourError if a person can't be asked now."""
        argv = [name_of(self._cli), *args]
        tries = max(self._rules.tries, 1)
        live = create_task(self._client, argv, most_tries=tries, idempotent=self._rules.idempotent)
        if live is None:
            raise TenfourError("The agent may not work now, so its command can't be confirmed.")
        return self._ask_with(live, args, why)

    def answer_of(self, pending: Pending) -> Escalation | None:
        """Return the answer of a person; None while there is none."""
        asked = self._client.escalations.get(pending.escalation)
        return None if asked.is_open else asked

    def wait(self, pending: Pending, every_s: float) -> Escalation:
        """Return a person's answer, however long it takes; an absent server is waited for."""
        while True:
            try:
                if answer := self.answer_of(pending):
                    return answer
            except TenfourError as error:
                if not error.retryable:
                    raise
                log.warning("Question %s: %s", pending.escalation, error)
            time.sleep(every_s)

    def withdraw(self, pending: Pending) -> None:
        """Take a question back, if it is still open; its task ends without running the command."""
        try:
            answer = self._client.escalations.withdraw(pending.escalation)
        except TenfourError as error:
            if error.status not in (404, 409):
                raise
            answer = self._client.escalations.get(pending.escalation)
        self._decline(self.claim(pending), answer)

    def claim(self, pending: Pending) -> LiveAttempt | None:
        """Return the live attempt of an answered question; None if the answer ended its task.

        Raises TenfourError if the agent may not work now.
        """
        try:
            claimed = self._client.tasks.claim(task=pending.task)
        except TenfourError as error:
            if error.code != "invalid_transition":
                raise
            return None
        for claim in claimed:
            return self._client.attempt(claim)
        raise TenfourError(f"{NoWork.of(claimed)}; the command still waits.")

    def carry_out(
        self, live: LiveAttempt | None, pending: Pending, answer: Escalation
    ) -> tuple[Result[Any], Pending | None]:
        """Run a command if the answer allows it; return its result, and the next question."""
        if live is None or answer.action != "answer" or answer.answer != RUN:
            return self._decline(live, answer), None
        reports = TaskReports(
            name_of(self._cli),
            live=live,
            most_tries=max(self._rules.tries, 1),
            idempotent=self._rules.idempotent,
            asks_again=True,
        )
        result = run_with_reports(self._cli, list(pending.args), self._rules, reports)
        if isinstance(result, ChangedVerb) and reports.live is not None:
            return result, self._ask_with(reports.live, result.args, result.error)
        return result, None

    def _decline(self, live: LiveAttempt | None, answer: Escalation) -> Err:
        if live is not None:
            live.done({"ran": False}, summary="A person did not allow the command.")
        said = answer.answer or answer.action or answer.state
        return Err(f"a person did not allow it ({said})")

    def _ask_with(self, live: LiveAttempt, args: Sequence[str], why: str) -> Pending:
        command = shlex.join([name_of(self._cli), *args])
        question = f"Run `{command}`?"
        asked = live.ask(f"{question}\n\n{why}" if why else question, options=OPTIONS)
        return Pending(list(args), live.task.id, asked.id, asked.url)
