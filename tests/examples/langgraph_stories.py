"""Graphs of other programs, for `test_langgraph`: runs in the environment that has langgraph."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from tenfour import AsyncClient, Client
from tenfour.langgraph import INTERRUPT, question_of, run_graph, run_graph_async

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
from langgraph_node import build_graph

HUMAN = {
    "action_request": {"action": "delete", "args": {"path": "a"}},
    "config": {
        "allow_accept": True,
        "allow_edit": True,
        "allow_respond": True,
        "allow_ignore": True,
    },
    "description": "Look first.",
}


class Both(TypedDict, total=False):
    first: Any
    second: Any


class Steps(TypedDict, total=False):
    n: int
    steps: Annotated[list[str], lambda old, new: old + new]


def human_graph(**options: Any) -> Any:
    builder = StateGraph(Both)
    builder.add_node("ask", lambda state: {"first": interrupt([HUMAN])[0]})
    builder.add_node("ask_too", lambda state: {"second": interrupt("When?")})
    builder.add_edge(START, "ask")
    builder.add_edge(START, "ask_too")
    return builder.compile(**(options or {"checkpointer": InMemorySaver()}))


def human() -> None:
    with Client() as client:
        for attempt in client.attempts():
            with attempt:
                attempt.result = run_graph(human_graph(), {}, attempt, every_s=0.05)


async def human_async() -> None:
    async with AsyncClient() as client:
        async for attempt in client.attempts():
            async with attempt:
                attempt.result = await run_graph_async(human_graph(), {}, attempt, every_s=0.05)


def retry() -> None:
    calls: list[int] = []

    def fail_once(state: Steps) -> Steps:
        calls.append(len(calls) + 1)
        if len(calls) == 1:
            raise RuntimeError("no luck")
        return {"steps": ["second"]}

    builder = StateGraph(Steps)
    builder.add_node("first", lambda state: {"steps": ["first"]})
    builder.add_node("second", fail_once)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    graph = builder.compile(checkpointer=InMemorySaver())
    with Client() as client:
        for attempt in client.attempts():
            with attempt:
                output = run_graph(graph, attempt.payload, attempt)
                attempt.result = {"steps": output["steps"], "calls": calls}


def gone() -> None:
    """The graph's state outlives the process that asked, and did not wait."""
    graph = build_graph()
    with Client() as client:
        (claim,) = client.tasks.claim()
        with client.attempt(claim) as attempt:
            config = {"configurable": {"thread_id": attempt.task.id}}
            (asked,) = graph.invoke(attempt.payload, config)["__interrupt__"]
            options = question_of(asked.value)
            attempt.ask(options.pop("question"), client_state={INTERRUPT: asked.id}, **options)
        for attempt in client.attempts(wait=True):
            with attempt:
                attempt.result = run_graph(graph, attempt.payload, attempt)
            return


def no_checkpointer() -> None:
    with Client() as client:
        for attempt in client.attempts():
            with attempt:
                run_graph(human_graph(checkpointer=None), {}, attempt)


STORIES = {each.__name__: each for each in (human, retry, gone, no_checkpointer)}

if __name__ == "__main__":
    name = sys.argv[1]
    if name == "human_async":
        asyncio.run(human_async())
    else:
        STORIES[name]()
