"""A LangGraph graph whose runs are tasks: its interrupt asks a person in Tenfour.

    pip install ./client "langgraph>=1.2,<2"
    TENFOUR_URL=… TENFOUR_TOKEN=… python examples/langgraph_node.py          # until no task waits
    TENFOUR_URL=… TENFOUR_TOKEN=… python examples/langgraph_node.py --wait   # until Ctrl-C

Send it a task: `tenfour enqueue coder announcement '{"topic": "the new shelves"}'`. It drafts a
text, asks whether to publish it, and continues with the answer.
"""

from __future__ import annotations

import sys
from typing import Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from tenfour import Client
from tenfour.langgraph import run_graph


class Announcement(TypedDict, total=False):
    topic: str
    draft: str
    answer: str
    published: bool


def draft(state: Announcement) -> Announcement:
    # A real graph calls its model here.
    return {"draft": f"We are glad to announce {state['topic']}."}


def approve(state: Announcement) -> Announcement:
    question = f"Publish this?\n\n{state['draft']}"
    # Shown in Tenfour's inbox; the graph continues once a person has answered there.
    return {"answer": interrupt({"question": question, "options": ["publish", "drop"]})}


def publish(state: Announcement) -> Announcement:
    return {"published": state["answer"] == "publish"}


def build_graph() -> Any:
    builder = StateGraph(Announcement)
    builder.add_node("draft", draft)
    builder.add_node("approve", approve)
    builder.add_node("publish", publish)
    builder.add_edge(START, "draft")
    builder.add_edge("draft", "approve")
    builder.add_edge("approve", "publish")
    builder.add_edge("publish", END)
    # A checkpointer in a database lets another process continue the graph.
    return builder.compile(checkpointer=InMemorySaver())


def main() -> None:
    graph = build_graph()
    with Client() as client:
        # With a name of its own, a worker that was restarted gets its task back.
        for attempt in client.attempts(worker_id="langgraph-1", wait="--wait" in sys.argv):
            with attempt:
                attempt.result = run_graph(graph, attempt.payload, attempt, every_s=1)
            print(attempt.task.id, attempt.decision and attempt.decision.decision)


if __name__ == "__main__":
    main()
