"""Functions whose calls are tasks: each call is recorded, verified, and retried as one."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar

from tenfour import tasks
from tenfour.attempts.claiming import NoWork, pause_after
from tenfour.attempts.live_attempts import Live
from tenfour.http.exchange import Steps, Wait
from tenfour.http.problems import TaskFailed, TenfourError
from tenfour.http.verbs import D
from tenfour.models import Claimed, Decision, Escalation

if TYPE_CHECKING:
    from tenfour.client import AsyncClient, Client, Nouns

P = ParamSpec("P")
T = TypeVar("T")

# The characters that are stored of an argument or a result that is not JSON.
TEXT_LENGTH = 4000
# The name of the parameter that is given the live attempt.
ATTEMPT = "attempt"


class Options(TypedDict, total=False):
    """Options of a task function."""

    # the task's type; the function's name by default
    type: str | None
    title: str | None
    # a shell command that checks the work after each attempt
    verify: str | None
    # after an escalation: wait for the answer and continue, instead of raising TaskFailed
    wait: bool
    priority: int | None
    max_attempts: int | None
    on_exhausted: tasks.OnExhausted | None
    backoff: Mapping[str, Any] | None
    lease_s: int | None
    timeout_s: int | None
    idempotent: bool | None


class Tries(Generic[D]):
    """The attempts at one call of a task function."""

    def __init__(
        self, client: Nouns[D], function: Callable[..., Any], given: Options, args: Any, kwargs: Any
    ) -> None:
        options: dict[str, Any] = dict(given)
        self.verify: str | None = options.pop("verify", None)
        self._waits = options.pop("wait", False)
        self._type: str = options.pop("type", None) or function.__name__
        self._options = options
        self._core = client._core
        bound = bind(function, args, kwargs)
        self._payload = {
            "function": f"{function.__module__}.{function.__qualname__}",
            "arguments": {name: as_json(value) for name, value in bound.items()},
        }
        self.error: Exception | None = None
        self.value: Any = None

    def begin(self) -> Steps[Claimed]:
        """Create the task and start it."""
        call = tasks.enqueue_and_claim(self._type, self._payload, **self._options)
        claimed = yield from self._core.perform(call)
        if not claimed:
            raise TaskFailed(
                f"{NoWork.of(claimed)}; the task stays queued.", task=claimed.made or ""
            )
        return claimed

    def follow(self, live: Live[Any]) -> Steps[Claimed | None]:
        """Return the claim of the next attempt, or None if the task is done; raises TaskFailed."""
        decision = live.decision
        if decision is None:
            raise TaskFailed("The attempt ended before it was reported.", task=live.task.id)
        if decision.decision == "done":
            return None
        if decision.decision == "wait":
            return (yield from self._claim_again(live, decision))
        if decision.escalation and self._waits:
            yield from live._await_answer(Escalation.read({**decision.escalation, "state": "open"}))
            if not live.should_stop:
                return Claimed(data=(live.claim,))
        raise self._failed(live, decision) from self.error

    def _claim_again(self, live: Live[Any], decision: Decision) -> Steps[Claimed]:
        yield Wait(decision.delay_s)
        while True:
            try:
                claimed = yield from self._core.perform(tasks.claim(task=live.task.id))
            except TenfourError as error:
                if error.code != "invalid_transition":
                    raise
                raise TaskFailed(error.sentence, task=live.task.id) from self.error
            if claimed:
                return claimed
            if claimed.reason != "no_task":
                message = f"{NoWork.of(claimed)}; the task will be retried."
                raise TaskFailed(message, task=live.task.id, decision=decision) from self.error
            yield Wait(pause_after(claimed))

    def _failed(self, live: Live[Any], decision: Decision) -> TaskFailed:
        asks = (decision.escalation or {}).get("url")
        message = f"Attempt {live.number} at {self._type}: {decision.decision}, {decision.reason}"
        message += f"; a person is asked: {asks}" if asks else ""
        return TaskFailed(message, task=live.task.id, decision=decision)


def make_task(client: Client, function: Callable[P, T], given: Options) -> Callable[P, T]:
    """Return a function whose call is a task; it returns what the successful attempt returned."""

    @functools.wraps(function)
    def perform(*args: P.args, **kwargs: P.kwargs) -> T:
        tries = Tries(client, function, given, args, kwargs)
        claimed: Claimed | None = client._driver.run(tries.begin())
        while claimed:
            attempt = client.attempt(claimed.data[0])
            with attempt, remember_error(tries):
                tries.value = function(*args, **with_attempt(function, kwargs, attempt))
                attempt.result = as_json(tries.value)
                if tries.verify:
                    attempt.verify(tries.verify)
            claimed = client._driver.run(tries.follow(attempt))
        value: T = tries.value
        return value

    return perform


def make_async_task(
    client: AsyncClient, function: Callable[P, Awaitable[T]], given: Options
) -> Callable[P, Awaitable[T]]:
    """Like `make_task`, for a coroutine function."""

    @functools.wraps(function)
    async def perform(*args: P.args, **kwargs: P.kwargs) -> T:
        tries = Tries(client, function, given, args, kwargs)
        claimed: Claimed | None = await client._driver.run(tries.begin())
        while claimed:
            attempt = client.attempt(claimed.data[0])
            async with attempt:
                with remember_error(tries):
                    tries.value = await function(*args, **with_attempt(function, kwargs, attempt))
                    attempt.result = as_json(tries.value)
                    if tries.verify:
                        await attempt.verify(tries.verify)
            claimed = await client._driver.run(tries.follow(attempt))
        value: T = tries.value
        return value

    return perform


@contextmanager
def remember_error(tries: Tries[Any]) -> Iterator[None]:
    """Store the exception of an attempt: the last one is the cause of TaskFailed."""
    tries.error = None
    try:
        yield
    except Exception as error:
        tries.error = error
        raise


def bind(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments by name; raises TypeError before anything is sent if they don't fit."""
    given = with_attempt(function, kwargs, None)
    bound = inspect.signature(function).bind(*args, **given).arguments
    return {name: value for name, value in bound.items() if name != ATTEMPT}


def with_attempt(
    function: Callable[..., Any], kwargs: Mapping[str, Any], attempt: Any
) -> dict[str, Any]:
    """Return the arguments with the live attempt, if the function has a parameter for it."""
    takes_it = ATTEMPT in inspect.signature(function).parameters
    return {**kwargs, ATTEMPT: attempt} if takes_it else dict(kwargs)


def as_json(value: Any) -> Any:
    """Return a value as JSON can hold it: as it is, or as its text."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return repr(value)[:TEXT_LENGTH]
