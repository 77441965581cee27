"""The real agents with transcripts switched on: their session appears by itself, with its tasks."""

import pytest
from tenfour import Client

from ledger.models import Attempt, Message, Session, SessionTask
from retries.sessions.flushing import flush_session_message_blocking
from tests.agents.command_lines import AGENTS
from tests.agents.conftest import Connect
from tests.agents.scripted_model import Say, ScriptedModel, Tool, steps

pytestmark = pytest.mark.django_db(transaction=True)

TODO = {
    "claude": (
        Tool("TaskCreate", {"subject": "Write the parser", "description": "Parse ids"}),
        Tool("TaskUpdate", {"taskId": "1", "status": "in_progress"}),
        Tool("TaskUpdate", {"taskId": "1", "status": "completed"}),
    ),
    "codex": (
        Tool("create_goal", {"objective": "Write the parser"}),
        Tool("get_goal", {}),
        Tool("update_goal", {"status": "complete"}),
    ),
}


@pytest.mark.parametrize("name", AGENTS)
def test_a_running_session_appears_with_its_attempt_and_tasks(
    name: str, connect: Connect, model: ScriptedModel, producer: Client
) -> None:
    agent = connect(name, transcripts=True)
    producer.tasks.enqueue("coder", "implementation", {"action": "Write a parser."})
    create, start, finish = TODO[name]
    model.play(steps(create, start, agent.shell("echo ok"), finish, Say("Parser written.")))
    assert agent.run("Write a parser").code == 0

    session = Session.objects.get()
    assert (session.agent.name, session.title) == ("coder", "Write a parser")
    flush_session_message_blocking(session.pk)
    task = SessionTask.objects.get()
    assert (task.description, task.state) == ("Write the parser", "success")
    messages = Message.objects.filter(session=session)
    assert {row.state for row in messages} == {"success"}
    assert "Parser written." in str([row.content for row in messages])
    attempt = Attempt.objects.get()
    assert messages.filter(attempt=attempt).exists()
