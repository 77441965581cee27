"""A command agent: a conversation with a model endpoint, a program, and Tenfour's inbox."""

import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tenfour import Action, AgentResponse, Client, CommandAgent, Conversations, ModelEndpoint

from tests.client.model_server import ModelServer, Raw
from tests.client.shelves import Shelves
from tests.loops import run_coroutine
from tests.serving import Tenfour

Make = Callable[..., CommandAgent]


@pytest.fixture
def make(shelves: Shelves, model: ModelServer, tmp_path: Path) -> Make:
    """Makes an agent; each is one more process with the same folder of conversations."""

    def make(**options: Any) -> CommandAgent:
        endpoint = ModelEndpoint("small", url=model.url)
        folder = Conversations(tmp_path / "state" / "conversations")
        given = {"cli": shelves.program, "verb_words": 1, **options}
        return CommandAgent(given.pop("cli"), endpoint, conversations=folder, **given)

    return make


@pytest.fixture
def operator(tenfour_server: Tenfour) -> Iterator[Client]:
    with tenfour_server.client("operator") as client:
        yield client


def decide(action: str, *args: str, say: str = "") -> dict[str, Any]:
    return {"action": action, "cli_args": list(args), "response": say}


def fixed(*args: str) -> dict[str, Any]:
    return {"args": list(args)}


def test_a_query_without_arguments_is_the_models_text(
    make: Make, model: ModelServer, shelves: Shelves
) -> None:
    """S4.13"""
    model.replies.append(decide("query", say="I keep your shelves."))
    response = make().handle("Who are you?")
    assert response == AgentResponse("I keep your shelves.", Action.QUERY)
    assert shelves.executions == 0 and len(model.asked) == 1


def test_a_query_answers_with_a_summary(make: Make, model: ModelServer, shelves: Shelves) -> None:
    """S4.14, S4.19: the command and its data are remembered; tries and duration are there."""
    model.replies.extend(
        [
            decide("query", "list", "--jsonn"),
            fixed("list", "--json"),
            {"summary": "One shelf: a."},
            decide("query", say="It was a."),
        ]
    )
    response = make().handle("Which shelves are there?")
    assert (response.text, response.action) == ("One shelf: a.", Action.QUERY)
    assert [made.error is None for made in response.tries] == [False, True]
    assert response.duration_s == sum(made.duration_s for made in response.tries) > 0
    assert model.asked[2].question["data"] == '[{"name": "a"}]'
    assert model.asked[2].question["message"] == "Which shelves are there?"
    make().handle("Which one?")
    assert model.asked[3].question["last_command"] == ["list", "--jsonn"]
    assert model.asked[3].question["last_result"] == '[{"name": "a"}]'
    assert [turn["content"] for turn in model.asked[3].body["messages"][1:-1]] == [
        "Which shelves are there?",
        "One shelf: a.",
    ]


def test_a_query_that_fails_says_so(make: Make, model: ModelServer, shelves: Shelves) -> None:
    """S4.14"""
    model.replies.extend([decide("query", "list", "--a"), fixed("list", "--b")])
    response = make().handle("List them")
    assert response.text == "Couldn't fetch tasks: shelves: error: unrecognized arguments: list --b"
    assert shelves.executions == len(response.tries) == 3


def test_data_without_a_summary_is_shown_itself(make: Make, model: ModelServer) -> None:
    model.replies.extend([decide("query", "list", "--json"), Raw(b"", status=500)])
    assert make().handle("List them").text == '[{"name": "a"}]'


def test_nothing_pending_is_nothing_to_confirm(
    make: Make, model: ModelServer, shelves: Shelves
) -> None:
    """S4.15"""
    model.replies.append(decide("confirm", "delete", "a", say="Done."))
    assert make().handle("Yes").text == "Nothing to confirm."
    assert make().wait().text == "Nothing to confirm."
    assert shelves.executions == 0


def test_a_proposal_runs_once_it_is_confirmed(
    make: Make, model: ModelServer, shelves: Shelves, tmp_path: Path
) -> None:
    """S4.16, S4.17, S4.18: by another process, once, and in its own session only."""
    model.replies.extend(
        [
            decide("propose", "delete", "a", say="I list your shelves."),
            decide("confirm", say="Not here."),
            decide("confirm", say="Shelf a is gone."),
            decide("confirm", say="Again."),
        ]
    )
    proposed = make().handle("Delete a", "mara")
    command = shelves.command("delete", "a")
    assert proposed.text == f"I list your shelves.\nRun `{command}`?"
    assert shelves.executions == 0
    assert make().handle("Yes", "tom").text == "Nothing to confirm."
    done = make().handle("Yes", "mara")
    assert (done.text, done.action, len(done.tries)) == ("Shelf a is gone.", Action.CONFIRM, 1)
    assert shelves.lines[-1] == '["delete", "a"]'
    assert model.asked[2].question["pending_command"] == ["delete", "a"]
    assert make().handle("Yes", "mara").text == "Nothing to confirm."
    assert shelves.executions == 1
    kept = Conversations(tmp_path / "state" / "conversations").read("mara")
    assert (kept.pending, kept.last_command) == (None, ["delete", "a"])
    for path in (tmp_path / "state" / "conversations").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_confirmed_command_that_fails_is_not_pending_anymore(
    make: Make, model: ModelServer, shelves: Shelves
) -> None:
    """S4.16, S4.17"""
    model.replies.extend(
        [decide("propose", "delete"), decide("confirm"), fixed("delete"), fixed("delete")]
    )
    agent = make()
    agent.handle("Delete")
    error = "shelves: error: unrecognized arguments: delete"
    assert agent.handle("Yes").text == f"Command failed: {error}. What else?"
    assert shelves.executions == 3
    model.replies.clear()
    model.replies.append(decide("confirm"))
    assert agent.handle("Yes").text == "Nothing to confirm."


def test_a_fix_with_another_verb_is_confirmed_again(
    make: Make, model: ModelServer, shelves: Shelves
) -> None:
    model.replies.extend(
        [
            decide("propose", "add", "b", "c"),
            decide("confirm"),
            fixed("delete", "b"),
            decide("confirm", say="Deleted."),
        ]
    )
    agent = make()
    agent.handle("Add b and c")
    asked = agent.handle("Yes")
    assert shelves.command("delete", "b") in asked.text and asked.text.endswith("What else?")
    assert shelves.executions == 1
    assert agent.handle("Yes").text == "Deleted." and shelves.lines[-1] == '["delete", "b"]'


def test_a_fix_of_a_query_runs_where_its_verb_is_declared(
    make: Make, model: ModelServer, shelves: Shelves
) -> None:
    """SED-1: also where it is another one of the declared verbs."""
    model.replies.extend(
        [
            decide("query", "list", "opn"),
            fixed("show", "12"),
            fixed("list", "open"),
            {"summary": "One shelf: a."},
        ]
    )
    agent = make(queries=("list", "show"), verb_words=2)
    assert agent.handle("Which are open?").text == "One shelf: a."
    assert shelves.lines[-2:] == ['["show", "12"]', '["list", "open"]']


def test_a_misspelt_query_becomes_a_declared_one(
    make: Make, model: ModelServer, shelves: Shelves
) -> None:
    """SED-1: what was not declared never runs, so the verb is fixed before the first try."""
    model.replies.extend([decide("query", "lst"), fixed("list"), {"summary": "One shelf: a."}])
    agent = make(queries=("list", "show"), verb_words=2)
    assert agent.handle("List them").text == "One shelf: a."
    assert shelves.lines[1:] == ['["list"]']
    assert model.asked[1].question["error"] == "unknown command: lst"
    model.replies.clear()
    model.replies.extend([decide("query", "dlete", "a"), fixed("delete", "a")])
    proposed = agent.handle("Delete a")
    assert proposed.action == Action.PROPOSE and "dlete a`?" in proposed.text
    assert shelves.executions == 1


def test_a_confirmed_command_keeps_its_verb_though_queries_are_declared(
    make: Make, model: ModelServer, shelves: Shelves
) -> None:
    """SED-1: its second word, too, was confirmed."""
    model.replies.extend(
        [
            decide("propose", "delete", "b", "c"),
            decide("confirm"),
            fixed("list"),
            decide("propose", "add", "12", "c"),
            decide("confirm"),
            fixed("add", "13"),
        ]
    )
    agent = make(queries=("list",), verb_words=2)
    for words, command in (("Delete b", ["list"]), ("Add 12", ["add", "13"])):
        agent.handle(words)
        assert shelves.command(*command) in agent.handle("Yes").text
    assert shelves.executions == 2


def test_a_query_never_becomes_another_command(
    make: Make, model: ModelServer, shelves: Shelves
) -> None:
    """Neither by a fix, nor because the model calls a command a query."""
    model.replies.extend([decide("query", "list", "--a"), fixed("delete", "a")])
    asked = make().handle("List them")
    assert asked.text.startswith("Couldn't fetch tasks: ") and "delete a" in asked.text
    model.replies.clear()
    model.replies.append(decide("query", "delete", "b", say="I look."))
    before = len(model.asked)
    asked = make(queries=("list", "show all")).handle("Look")
    assert asked.action == Action.PROPOSE and asked.text.endswith("delete b`?")
    assert len(model.asked) == before + 1  # its help names the verb, which needs no fix
    assert not any("delete" in line for line in shelves.lines)


def test_a_refused_command_is_not_pending_anymore(
    make: Make, model: ModelServer, shelves: Shelves
) -> None:
    model.replies.extend(
        [decide("propose", "delete", "a"), decide("cancel", say="Fine."), decide("confirm")]
    )
    agent = make()
    agent.handle("Delete a")
    assert agent.handle("No").text == "Fine."
    assert agent.handle("Yes").text == "Nothing to confirm." and shelves.executions == 0


@pytest.mark.parametrize(
    "reply",
    [
        Raw(b"", status=500),
        Raw(None),
        "Hello",
        {"action": "explode", "cli_args": [], "response": ""},
        {"action": "query", "cli_args": "list", "response": ""},
        {"action": "query", "cli_args": [1], "response": ""},
        {"action": "query", "cli_args": [], "response": 7},
        {"cli_args": []},
    ],
)
def test_a_model_that_makes_no_sense_runs_nothing(
    reply: Any, make: Make, model: ModelServer, shelves: Shelves
) -> None:
    model.replies.append(decide("propose", "delete", "a"))
    agent = make()
    agent.handle("Delete a")
    model.replies.clear()
    model.replies.append(reply)
    assert agent.handle("Yes").text.endswith("Nothing was run.")
    assert shelves.executions == 0
    model.replies.append(decide("confirm", say="Gone."))
    model.replies.popleft()
    assert agent.handle("Yes").text == "Gone."


def test_two_confirmations_at_once_run_it_once(
    make: Make, model: ModelServer, shelves: Shelves
) -> None:
    model.replies.extend([decide("propose", "delete", "a"), decide("confirm", say="Gone.")])
    make().handle("Delete a")
    texts: list[str] = []
    threads = [
        threading.Thread(target=lambda: texts.append(make().handle("Yes").text)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts) == ["Gone.", "Nothing to confirm.", "Nothing to confirm."]
    assert shelves.executions == 1


def test_in_a_coroutine(make: Make, model: ModelServer) -> None:
    model.replies.append(decide("QUERY", say="Hello."))
    assert run_coroutine(make().handle_async("Hi")).text == "Hello."


def test_a_damaged_conversation_starts_anew(make: Make, model: ModelServer, tmp_path: Path) -> None:
    model.replies.append(decide("query", say="Hello."))
    folder = tmp_path / "state" / "conversations"
    make().handle("Hi")
    (path,) = folder.glob("*.json")
    for text in ("{", "[]", '{"pending": 7, "turns": "x"}', '{"pending": {"no": 1}}'):
        path.write_text(text)
        assert make().handle("Hi").text == "Hello."


# ---- confirmed by a person in Tenfour


def answer(operator: Client, text: str) -> None:
    (asked,) = operator.escalations.list(state="open")
    operator.escalations.resolve(asked.id, text)


def test_a_person_confirms_in_the_inbox(
    make: Make, model: ModelServer, shelves: Shelves, agent_client: Client, operator: Client
) -> None:
    """Yes in the conversation runs nothing; the answer in Tenfour does, and by any process."""
    model.replies.extend(
        [
            decide("propose", "delete", "--a", say="Shelf a goes."),
            decide("confirm", say="Too early."),
            decide("confirm", say="Shelf a is gone."),
        ]
    )
    agent = make(confirm="inbox", client=agent_client)
    asked = agent.handle("Delete a")
    (question,) = operator.escalations.list(state="open")
    assert asked.url == question.url and question.url in asked.text
    command = shelves.command("delete", "--a")
    assert question.question and f"{command}`?" in question.question
    assert "Shelf a goes." in question.question
    assert [choice["name"] for choice in question.choices] == ["run", "cancel"]
    early = agent.handle("Yes")
    assert early.text == f"A person has not answered yet: {question.url}"
    answer(operator, "answer: run")
    done = make(confirm="inbox", client=agent_client).handle("Yes")
    assert (done.text, len(done.tries)) == ("Shelf a is gone.", 1)


def test_what_a_person_allowed_is_reported_try_by_try(
    make: Make,
    model: ModelServer,
    shelves: Shelves,
    agent_client: Client,
    operator: Client,
    producer: Client,
) -> None:
    model.replies.extend([decide("propose", "add", "b", "--now"), fixed("add", "b")])
    agent = make(confirm="inbox", client=agent_client)
    agent.handle("Add b")
    waited: list[AgentResponse] = []
    thread = threading.Thread(target=lambda: waited.append(agent.wait(every_s=0.05)))
    thread.start()
    answer(operator, "answer: run")
    thread.join()
    assert waited[0].text == "Done." and len(waited[0].tries) == 2
    (task,) = producer.tasks.list()
    assert (task.state, task.result) == ("done", {"add": "b"})
    outcomes = [made.outcome for made in producer.tasks.attempts(task.id)]
    assert outcomes == ["success", "failure", "escalated"]
    assert agent.wait().text == "Nothing to confirm."


@pytest.mark.parametrize("text", ["answer: cancel", "answer: maybe", "skip", "abort", "fix: no"])
def test_without_a_persons_yes_nothing_runs(
    text: str,
    make: Make,
    model: ModelServer,
    shelves: Shelves,
    agent_client: Client,
    operator: Client,
    producer: Client,
) -> None:
    model.replies.append(decide("propose", "delete", "a"))
    agent = make(confirm="inbox", client=agent_client)
    agent.handle("Delete a")
    answer(operator, text)
    response = agent.wait(every_s=0.05)
    assert response.text.startswith("Command failed: a person did not allow it")
    assert shelves.executions == 0
    (task,) = producer.tasks.list()
    assert task.state in {"done", "skipped", "aborted"}
    assert agent.wait().text == "Nothing to confirm."


def test_a_person_is_asked_again_about_another_verb(
    make: Make,
    model: ModelServer,
    shelves: Shelves,
    agent_client: Client,
    operator: Client,
    producer: Client,
) -> None:
    model.replies.extend([decide("propose", "add", "b", "c"), fixed("delete", "b")])
    agent = make(confirm="inbox", client=agent_client)
    agent.handle("Add b and c")
    answer(operator, "answer: run")
    asked = agent.wait(every_s=0.05)
    assert asked.url and shelves.executions == 1
    (question,) = operator.escalations.list(state="open")
    command = shelves.command("delete", "b")
    assert question.question and f"{command}`?" in question.question
    answer(operator, "answer: run")
    assert agent.wait(every_s=0.05).text == "Done." and shelves.lines[-1] == '["delete", "b"]'
    (task,) = producer.tasks.list()
    assert task.state == "done"


def test_a_timeout_of_a_confirmed_command_asks_a_person(
    make: Make, model: ModelServer, shelves: Shelves, agent_client: Client, operator: Client
) -> None:
    model.replies.append(decide("propose", "hang"))
    agent = make(cli=shelves.slow, confirm="inbox", client=agent_client, idempotent=False)
    agent.handle("Hang")
    answer(operator, "answer: run")
    response = agent.wait(every_s=0.05)
    assert "may have taken effect" in response.text and len(response.tries) == 1
    (question,) = operator.escalations.list(state="open")
    assert question.reason == "needs_confirmation"


def test_a_new_proposal_and_a_no_withdraw_the_question(
    make: Make, model: ModelServer, shelves: Shelves, agent_client: Client, producer: Client
) -> None:
    model.replies.extend(
        [decide("propose", "delete", "a"), decide("propose", "delete", "b"), decide("cancel")]
    )
    agent = make(confirm="inbox", client=agent_client)
    agent.handle("Delete a")
    agent.handle("No, b")
    assert len(list(producer.escalations.list(state="open"))) == 1
    assert agent.handle("No").text == "Cancelled."
    assert list(producer.escalations.list(state="open")) == []
    assert {task.state for task in producer.tasks.list()} == {"done"} and shelves.executions == 0


def test_without_a_server_nothing_can_be_confirmed(
    make: Make, model: ModelServer, shelves: Shelves, agent_client: Client
) -> None:
    model.replies.extend([decide("propose", "delete", "a"), decide("confirm")])
    with Client("http://127.0.0.1:1", "tenfour_agt_none", retries=0) as away:
        agent = make(confirm="inbox", client=away)
        assert "can't be confirmed now: Tenfour cannot be reached" in agent.handle("Delete").text
        assert agent.handle("Yes").text == "Nothing to confirm."
        make(confirm="inbox", client=agent_client)
        model.replies.appendleft(decide("propose", "delete", "a"))
        make(confirm="inbox", client=agent_client).handle("Delete a")
        assert "Tenfour cannot be reached" in agent.handle("Yes").text
    assert shelves.executions == 0
    with pytest.raises(ValueError, match="with a client"):
        make(confirm="inbox")
