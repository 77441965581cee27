"""Run a LangGraph graph as an attempt: an interrupt asks a person in Tenfour, who resumes it.

Needs the package `langgraph`, which is imported when a graph runs, and a graph with a checkpointer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tenfour.api.escalation_calls import escalations
from tenfour.attempts.live_attempts import ASK_EVERY_S, GOES_ON, Live
from tenfour.http.drivers import Exhausted
from tenfour.http.exchange import Steps
from tenfour.http.verbs import Rows
from tenfour.models import Escalation

if TYPE_CHECKING:
    from tenfour.attempts.live_attempts import AsyncLiveAttempt, LiveAttempt

# The key of a question's `client_state` with the interrupt's id.
INTERRUPT = "langgraph_interrupt"
# Earlier questions that are looked through for the answer to an interrupt.
MOST_EARLIER = 300
# What the value of an interrupt may say of its question.
ASKED = ("question", "options", "response_schema", "severity")
# What a person may decide about a HumanInterrupt, by the key that allows it.
ALLOWED = {
    "allow_accept": "accept",
    "allow_edit": "edit",
    "allow_respond": "response",
    "allow_ignore": "ignore",
}


def run_graph(
    graph: Any,
    input: Any,
    attempt: LiveAttempt,
    *,
    config: Mapping[str, Any] | None = None,
    every_s: float = ASK_EVERY_S,
) -> Any:
    """Return a graph's output, after people have answered its interrupts.

    The graph's thread is the task: another attempt, also in another process, continues where
    the last one stopped. Returns None if an answer ended the task; `attempt.should_stop` is then
    true.
    """
    run = GraphRun(graph, attempt, config)
    given = attempt._driver.run(run.begin(input, every_s))
    while given is not STOP:
        output = graph.invoke(given, run.config)
        given = attempt._driver.run(run.answer(graph.get_state(run.config), every_s))
        if given is None:
            return output
    return None


async def run_graph_async(
    graph: Any,
    input: Any,
    attempt: AsyncLiveAttempt,
    *,
    config: Mapping[str, Any] | None = None,
    every_s: float = ASK_EVERY_S,
) -> Any:
    """Like `run_graph`, for asyncio."""
    run = GraphRun(graph, attempt, config)
    given = await attempt._driver.run(run.begin(input, every_s, await run.read_state_async()))
    while given is not STOP:
        output = await graph.ainvoke(given, run.config)
        given = await attempt._driver.run(run.answer(await run.read_state_async(), every_s))
        if given is None:
            return output
    return None


# What there is to do after an answer that ended the task.
STOP = object()


class GraphRun:
    """A graph's run as the thread of a task; its steps are taken by either driver."""

    def __init__(self, graph: Any, live: Live[Any], config: Mapping[str, Any] | None) -> None:
        if not getattr(graph, "checkpointer", None):
            raise ValueError(
                "The graph has no checkpointer, so it can't be resumed. "
                "Compile it with one: builder.compile(checkpointer=…)"
            )
        self._graph = graph
        self._live = live
        known = dict(config or {})
        thread = {"thread_id": live.task.id, **known.get("configurable", {})}
        self.config = {**known, "configurable": thread}

    async def read_state_async(self) -> Any:
        return await self._graph.aget_state(self.config)

    def begin(self, input: Any, every_s: float, state: Any = None) -> Steps[Any]:
        """Return the graph's first input, or the command that an earlier run needs."""
        state = self._graph.get_state(self.config) if state is None else state
        if not state.next:
            return input
        # None continues from the last checkpoint: an earlier attempt failed or was stopped.
        return (yield from self.answer(state, every_s))

    def answer(self, state: Any, every_s: float) -> Steps[Any]:
        """Return the command that resumes the graph; None if nothing was asked, or STOP."""
        answers: dict[str, Any] = {}
        for interrupt in state.interrupts:
            answers[interrupt.id] = yield from self._resolve(interrupt, every_s)
            if self._live.should_stop:
                return STOP
        if not answers:
            return None
        # Not an import statement: the package is not there when types are checked.
        return import_module("langgraph.types").Command(resume=answers)

    def _resolve(self, interrupt: Any, every_s: float) -> Steps[Any]:
        found = yield from self._find_answer(interrupt.id)
        problem = ""
        while True:
            if found is None:
                found = yield from self._ask(interrupt, problem, every_s)
            if self._live.should_stop:
                return None
            try:
                return value_of(interrupt.value, found)
            except ValueError:
                found, problem = None, "The arguments must be a JSON object. "

    def _ask(self, interrupt: Any, problem: str, every_s: float) -> Steps[Escalation]:
        schema = getattr(interrupt, "response_schema", None)
        options = question_of(interrupt.value, schema if isinstance(schema, dict) else None)
        question = problem + options.pop("question")
        options["client_state"] = {INTERRUPT: interrupt.id}
        asked = yield from self._live._asking_steps(question, options)
        return (yield from self._live._await_answer(asked, every_s))

    def _find_answer(self, id: str) -> Steps[Escalation | None]:
        """Return the answer to a question that an earlier process asked and did not wait for."""
        rows = Rows(self._live._core, escalations(reason="agent_question"))
        for _ in range(MOST_EARLIER):
            try:
                asked = yield from rows.advance()
            except Exhausted:
                return None
            known = asked.client_state if isinstance(asked.client_state, dict) else {}
            if asked.task == self._live.task.id and known.get(INTERRUPT) == id:
                return asked if asked.action in GOES_ON else None
        return None


def question_of(value: Any, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return an interrupt's value as a question: its text, and options of `attempt.ask`.

    A dict with `question` may name them itself, such as `options`, `response_schema` and
    `severity`. A HumanInterrupt becomes a form with the decisions that it allows.

    >>> question_of("May I?"), question_of({"question": "Which?", "options": ["a", "b"]})
    ({'question': 'May I?'}, {'question': 'Which?', 'options': ['a', 'b']})
    """
    if (human := human_interrupt(value)) is not None:
        return human_question_of(human)
    known: dict[str, Any] = {"response_schema": dict(schema)} if schema else {}
    if isinstance(value, Mapping) and isinstance(value.get("question"), str):
        return {**known, **{name: value[name] for name in ASKED if name in value}}
    text = value if isinstance(value, str) else json.dumps(value, default=repr, indent=2)
    return {**known, "question": text or "The graph waits for an answer."}


def value_of(value: Any, answered: Escalation) -> Any:
    """Return an answer as the value that resumes the graph; raises ValueError for a wrong one."""
    answer = answered.answer or answered.action
    human = human_interrupt(value)
    if human is None:
        return answer
    response = human_response_of(human, answer)
    return [response] if isinstance(value, (list, tuple)) else response


def human_interrupt(value: Any) -> Mapping[str, Any] | None:
    """Return a HumanInterrupt, alone or in a list of one; None if the value is something else."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    is_human = isinstance(value, Mapping) and isinstance(value.get("action_request"), Mapping)
    return value if is_human else None


def human_question_of(human: Mapping[str, Any]) -> dict[str, Any]:
    action = human["action_request"]
    arguments = json.dumps(action.get("args") or {}, default=repr, ensure_ascii=False)
    question = f"{action.get('action')} {arguments}"
    if human.get("description"):
        question = f"{human['description']}\n\n{question}"
    decisions = [name for key, name in ALLOWED.items() if (human.get("config") or {}).get(key)]
    properties: dict[str, Any] = {
        "decision": {"type": "string", "enum": decisions or ["accept", "ignore"]}
    }
    if "response" in decisions:
        properties["text"] = {"type": "string", "description": "for a response"}
    if "edit" in decisions:
        properties["args"] = {
            "type": "string",
            "description": "for an edit: the arguments, a JSON object",
            "default": arguments,
        }
    schema = {"type": "object", "properties": properties, "required": ["decision"]}
    return {"question": question, "response_schema": schema}


def human_response_of(human: Mapping[str, Any], answer: Any) -> dict[str, Any]:
    """Return a person's answer as a HumanResponse.

    >>> human_response_of({"action_request": {"action": "run"}}, {"decision": "accept"})
    {'type': 'accept', 'args': None}
    """
    # Without the form's fields, a person gave an instruction: "fix: …".
    given = answer if isinstance(answer, Mapping) else {"decision": "response", "text": answer}
    decision = given.get("decision")
    if decision == "response":
        return {"type": "response", "args": str(given.get("text") or "")}
    if decision == "edit":
        args = json.loads(str(given.get("args") or ""))
        if not isinstance(args, dict):
            raise ValueError("The arguments are not a JSON object.")
        action = str(human["action_request"].get("action"))
        return {"type": "edit", "args": {"action": action, "args": args}}
    return {"type": str(decision), "args": None}
