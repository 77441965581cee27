"""One call that does it all: a task enqueued, started past the breaker, retried and reported."""

from collections.abc import Callable
from typing import Any, TypeVar

from ledger import tasks
from ledger.agents import register
from ledger.journal import SYSTEM, Actor
from ledger.models import Project
from ledger.models.project import DEFAULT
from retries import claims
from retries.attempts import finishing
from retries.breaker import CircuitBreakerOpen
from retries.strategy import RetryStrategy

T = TypeVar("T")


def execute_agent_task_with_resilience(
    agent_name: str,
    task_type: str,
    payload: Any,
    fn: Callable[[str, str, Any], T],
    *,
    strategy: RetryStrategy | None = None,
    actor: Actor = SYSTEM,
) -> T:
    """Do a task of an agent of the default project with `fn(agent_name, task_type, payload)`.

    The result is stored and returned. An error that outlasts the retries is reported once, so that
    the task ends in the dead letters, and raised. An open circuit blocks the task and raises
    CircuitBreakerOpen without a call. All calls together must end within the task's lease.
    """
    project = Project.objects.get(name=DEFAULT)
    agent = register(agent_name, project=project, actor=actor)
    task_id = tasks.enqueue(agent, task_type, payload, actor=actor)
    attempt_id = claims.start(task_id, actor=actor)
    try:
        result = (strategy or RetryStrategy()).execute_with_retry(
            fn, agent_name, task_type, payload
        )
    except Exception as error:
        # A circuit within the function that is open now says nothing final about the task.
        final = not isinstance(error, CircuitBreakerOpen)
        finishing.failed(attempt_id, f"{type(error).__name__}: {error}", final=final, actor=actor)
        raise
    finishing.succeeded(attempt_id, result, actor=actor)
    return result
