"""A project with a row of every noun."""

from dataclasses import dataclass
from typing import Any

from tenfour import Client
from tenfour.api.calls import json_object
from tenfour.http.core import Call
from tenfour.sessions.transcripts import Part, import_part

from ledger import tokens
from ledger.journal import SYSTEM, Stamp
from tests.ledger.sessions.transcript_files import as_lines, claude_line, todo_write
from tests.serving import Tenfour

# The server refuses escapes in instructions and titles, not what else misleads a reader.
BIDI = "Look \u202eevil\u2066 日本語\nagain"
HOSTILE = "Look\x1b]0;owned\x07 \x1b[31mred\x1b[0m\u202eevil\r\nagain\x9b2J"
PLAN = {
    "ref": "03-01",
    "title": "Release \u202e1",
    "tasks": [
        {"ref": "task-1", "title": "Build", "agent": "coder", "action": "make"},
        {"ref": "task-2", "title": "Ship", "agent": "coder", "action": "ship", "needs": ["task-1"]},
    ],
}
RULE = {
    "on": {"event": "signal", "type": "fs_write", "match": {"path": {"glob": "src/**"}}},
    "content": "Run the tests",
}


@dataclass(frozen=True)
class World:
    """A project, a token of each kind, and the id of one row of each noun."""

    server: Tenfour
    tokens: dict[str, str]
    ids: dict[str, str]

    def env(self, kind: str = "operator") -> dict[str, str]:
        return {"TENFOUR_URL": self.server.url, "TENFOUR_TOKEN": self.tokens[kind]}

    def client(self, kind: str = "operator") -> Client:
        return Client(self.server.url, self.tokens[kind])


def make_world(server: Tenfour) -> World:
    """Fill a project through the API: one row of each noun, and hostile text in them."""
    secrets = {kind: server.token(kind) for kind in ("orchestrator", "operator", "reader")}
    secrets["agent"] = server.token("agent", "coder")
    stamp = Stamp(SYSTEM)
    token, secrets["manager"] = tokens.issue(
        "operator", project=server.project, name="ci", manages_tokens=True, stamp=stamp
    )
    world = World(server, secrets, {"token": str(token.pk)})
    with world.client() as operator, world.client("agent") as agent:
        _fill(world.ids, operator, agent)
    return world


def _fill(ids: dict[str, str], operator: Client, agent: Client) -> None:
    ids["instruction"] = operator.instructions.send("coder", BIDI).id
    failing = operator.tasks.enqueue(
        "coder", "code", {"files": ["a.py"]}, max_attempts=1, on_exhausted="dead_letter"
    )
    (claim,) = agent.tasks.claim(task=failing.id)
    failure = {"type": "execution_error", "message": f"TypeError: {HOSTILE}"}
    agent.tasks.report(claim.attempt.id, "failure", failure=failure)
    ids["task"] = failing.id
    ids["dead-letter"] = next(operator.dead_letters.list()).id
    ids["pattern"] = str(rows(operator, "/v1/patterns")[0]["id"])
    ids["permission"] = ask_permission(agent, HOSTILE)
    asking = operator.tasks.enqueue("coder", "review", title=BIDI.replace("\n", " "))
    (claim,) = agent.tasks.claim(task=asking.id)
    ids["escalation"] = agent.tasks.ask(claim.attempt.id, "May I?", options=["yes", "no"]).id
    ids["standing"] = operator.standing_instructions.create(RULE["on"], str(RULE["content"])).id
    ids["plan"] = str(operator.plans.create(PLAN).plan.id)
    ids["agent"] = operator.agents.get("coder").id
    ids["pool"] = operator.pools.create("coders", ["coder"]).id
    ids["budget"] = operator.budgets.set(tokens=10**9).id
    ids["session"] = import_talk(agent)
    ids["event"] = next(operator.events.list()).id


def ask_permission(agent: Client, command: str) -> str:
    """Ask about a call that no rule decides; return the request's id."""
    body = {"tool": "Bash", "input": {"command": command}, "folder": "/srv/app"}
    return str(agent.perform(Call("POST", "/v1/permissions", json_object, body))["id"])


def import_talk(agent: Client) -> str:
    """Import a conversation with a to-do and hostile text in it; return the session's id."""
    lines = as_lines(claude_line(1, "user", BIDI), todo_write(2, (HOSTILE, "in_progress")))
    call = import_part(Part(lines, 1, len(lines), 3), {})
    id = str(agent.perform(call)["session"]["id"])
    agent.perform(Call("POST", f"/v1/sessions/{id}/flush", json_object))
    return id


def rows(client: Client, path: str, **params: str) -> list[Any]:
    """Return the rows of a list as the API has them."""
    return list(client.perform(Call("GET", path, lambda data: data["data"], params=params)))
