"""`tenfour.run_cli`: a real program, a real model endpoint, and the ledger."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tenfour import (
    MAX_CLI_RETRIES,
    ArgumentFixer,
    ChangedVerb,
    Client,
    CommandTimeout,
    Err,
    ModelEndpoint,
    NotConfigured,
    Ok,
    Program,
    Result,
    RetryConfig,
    Try,
    cli_retries,
    run_cli,
    run_cli_async,
    try_cli,
)

from dashboard.settings.limits import MECHANISMS
from tests.client.model_server import Asked, ModelServer, Raw
from tests.client.shelves import Shelves
from tests.loops import run_coroutine
from tests.processes import is_running
from tests.waiting import PATIENCE_S, wait_until


def fixer(model: ModelServer, **options: Any) -> ArgumentFixer:
    return ArgumentFixer(ModelEndpoint("small", url=model.url, key="key-of-tests", **options))


def say(*args: str) -> dict[str, Any]:
    return {"args": list(args)}


class OwnCli:
    """A command line that is no program: it runs functions, sync or async."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run
        self.calls: list[tuple[str, ...]] = []

    def get_help(self) -> str:
        raise OSError("there is no help")


def test_the_number_of_tries_is_three() -> None:
    """S4.1: as the settings page says."""
    assert MAX_CLI_RETRIES == cli_retries.MAX_CLI_RETRIES == 3
    assert RetryConfig().max_retries == 3
    (said,) = [each for each in MECHANISMS if each.limit == "MAX_CLI_RETRIES"]
    assert (said.default, said.total_runs) == (MAX_CLI_RETRIES, "3 calls")


def test_results_are_values_to_match_on() -> None:
    """S4.2: also when the error has a cause."""

    def describe(result: Result[Any]) -> str:
        match result:
            case Ok(data):
                return f"ok {data}"
            case Err(error):
                return f"err {error}"

    results: list[Result[Any]] = [Ok(1), Err("no"), ChangedVerb("other", args=("x",))]
    assert [describe(each) for each in results] == ["ok 1", "err no", "err other"]
    assert Err("no", cause=ValueError()) == Err("no")


def test_one_try_never_raises_and_logs_the_error(caplog: pytest.LogCaptureFixture) -> None:
    """S4.3"""

    def fail(*args: str) -> None:
        raise ValueError(f"no {args[0]}")

    with caplog.at_level(logging.WARNING, "tenfour"):
        assert try_cli(OwnCli(fail), ["list"]) == Err("no list")
    assert caplog.messages == ["CLI failed: no list"]
    assert try_cli(OwnCli(lambda *args: list(args)), ["list"]) == Ok(["list"])


def test_a_first_success_runs_once_and_asks_nothing(shelves: Shelves, model: ModelServer) -> None:
    """S4.4, S4.12: the data is a list, a dict, or the text."""
    fix = fixer(model)
    assert run_cli(shelves.program, ["list", "--json"], fix=fix) == Ok([{"name": "a"}])
    assert run_cli(shelves.program, ["add", "b"], fix=fix) == Ok({"add": "b"})
    assert run_cli(shelves.program, ["list"], fix=fix) == Ok("a\n")
    assert (shelves.executions, shelves.helps, model.asked) == (3, 0, [])


def test_fixed_arguments_succeed(shelves: Shelves, model: ModelServer) -> None:
    """S4.5, S4.7, S4.8: the endpoint gets the arguments, the error, the help, and the schema."""
    model.replies.append(say("list", "--json"))
    tries: list[Try] = []
    result = run_cli(shelves.program, ["list", "--jsonn"], fix=fixer(model), on_try=tries.append)
    assert result == Ok([{"name": "a"}])
    assert (shelves.executions, shelves.helps, len(model.asked)) == (2, 1, 1)
    (asked,) = model.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["Authorization"] == "Bearer key-of-tests"
    assert asked.body["model"] == "small"
    assert asked.body["response_format"]["type"] == "json_schema"
    schema = asked.body["response_format"]["json_schema"]
    assert schema["strict"] and schema["schema"]["required"] == ["args"]
    assert asked.question["args"] == ["list", "--jsonn"]
    assert asked.question["error"] == "shelves: error: unrecognized arguments: list --jsonn"
    assert asked.question["help"].startswith("usage: shelves list")
    assert [(made.number, made.args[-1], made.error is None) for made in tries] == [
        (1, "--jsonn", False),
        (2, "--json", True),
    ]
    assert all(made.duration_s > 0 for made in tries)


def test_three_failures_are_three_executions_and_two_fixes(
    shelves: Shelves, model: ModelServer
) -> None:
    """S4.6, S4.7, S4.8, S4.11: the second fix starts from the first; the third error is said."""
    model.replies.extend([say("list", "--b"), say("list", "--c"), say("list", "--d")])
    result = run_cli(shelves.program, ["list", "--a"], fix=fixer(model))
    assert result == Err("shelves: error: unrecognized arguments: list --c")
    assert (shelves.executions, shelves.helps) == (3, 1)
    assert [asked.question["args"][-1] for asked in model.asked] == ["--a", "--b"]
    assert [asked.question["error"][-3:] for asked in model.asked] == ["--a", "--b"]


@pytest.mark.parametrize(
    "reply",
    [
        Raw(b"down", status=503),
        Raw(b"<html>", status=200),
        Raw(b'{"choices": []}'),
        Raw(b"[1]"),
        Raw(b"x" * 2_000_000),
        Raw(None),
        None,
        "I can't help with that.",
        '{"args": ["list", "--js',
        {"args": "list --json"},
        {"args": []},
        {"args": ["list", 7]},
        {"args": ["list", "\x00"]},
        {"args": ["x"] * 101},
        {"command": ["list"]},
    ],
)
def test_what_cannot_be_fixed_runs_as_it_was(
    reply: Any, shelves: Shelves, model: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    """S4.9: the original arguments, and the loop continues."""
    model.replies.append(reply)
    with caplog.at_level(logging.WARNING, "tenfour"):
        result = run_cli(shelves.program, ["list", "--a"], fix=fixer(model))
    assert result == Err("shelves: error: unrecognized arguments: list --a")
    assert shelves.lines.count('["list", "--a"]') == shelves.executions == 3
    assert len(model.asked) == 2
    unfixed = [text for text in caplog.messages if "could not be fixed" in text]
    assert len(unfixed) == 2 and "key-of-tests" not in caplog.text


@pytest.mark.parametrize(
    "reply",
    [
        'Here it is:\n```json\n{"args": ["list", "--json"]}\n```\nGood luck!',
        '{oh} {"args": ["list", "--json"]}',
        [{"type": "text", "text": '{"args": ["list", "--json"]}'}],
    ],
)
def test_an_endpoint_that_ignores_the_schema_is_understood(
    reply: Any, shelves: Shelves, model: ModelServer
) -> None:
    model.replies.append(reply)
    assert isinstance(run_cli(shelves.program, ["list", "--jsno"], fix=fixer(model)), Ok)


def test_a_model_that_does_not_answer_in_time_or_is_away(
    shelves: Shelves, model: ModelServer
) -> None:
    """S4.9"""
    model.replies.append(say("list"))
    model.released.clear()
    result = run_cli(shelves.program, ["list", "--a"], fix=fixer(model, timeout_s=0.3))
    model.released.set()
    assert isinstance(result, Err) and shelves.executions == 3
    away = ArgumentFixer(ModelEndpoint("small", url="http://127.0.0.1:1/v1"))
    assert isinstance(run_cli(shelves.program, ["list", "--a"], fix=away), Err)
    assert shelves.executions == 6


def test_without_tries_nothing_is_executed(
    shelves: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4.10"""
    monkeypatch.setattr(cli_retries, "MAX_CLI_RETRIES", 0)
    assert run_cli(shelves.program, ["list"]) == Err("Max retries exceeded")
    assert shelves.lines == []


def test_an_endpoint_needs_an_address(monkeypatch: pytest.MonkeyPatch, model: ModelServer) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(NotConfigured, match="missing"):
        ModelEndpoint("small")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/")
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    model.replies.append(lambda asked: Raw(b'{"error": "from-the-environment"}', status=401))
    with pytest.raises(Exception, match=r"answered 401: .*redacted") as raised:
        ModelEndpoint("small").ask([{"role": "user", "content": "{}"}], name="x", schema={})
    assert "from-the-environment" not in str(raised.value)
    assert model.asked[0].headers["Authorization"] == "Bearer from-the-environment"


def run_shelf(*args: str) -> str:
    """Run a command of one word, as SED-1 has it: `list`, or `show` with a number."""
    if args == ("list",) or (args[0] == "show" and args[-1].isdigit()):
        return "a"
    raise ValueError(f"unknown {' '.join(args)}")


def try_once_more(args: list[str], fixed: list[str], **options: Any) -> tuple[Result[Any], int]:
    """Return the result of a command that is fixed once, and the number of its executions."""
    made: list[Try] = []
    result = run_cli(OwnCli(run_shelf), args, fix=lambda *_: fixed, on_try=made.append, **options)
    return result, len(made)


@pytest.mark.parametrize(
    ("args", "fixed", "options"),
    [
        (["show", "12x"], ["show", "12"], {}),
        (["list", "open"], ["list"], {}),
        (["show", "12x"], ["show", "12"], {"queries": ("list", "show")}),
        (["lst"], ["list"], {"queries": ("list", "show")}),
        (["list", "12"], ["show", "12"], {"queries": ("list", "show")}),
        (["lst"], ["list"], {"only_reads": True}),
        (["lst", "open"], ["list"], {"only_reads": True}),
    ],
)
def test_a_fix_that_only_reads_or_keeps_the_verb_runs_by_itself(
    args: list[str], fixed: list[str], options: dict[str, Any]
) -> None:
    """SED-1, S4.5, S4.9: no person has confirmed anything."""
    assert try_once_more(args, fixed, **options) == (Ok("a"), 2)


@pytest.mark.parametrize(
    ("args", "fixed", "options"),
    [
        (["lst"], ["list"], {}),
        (["issue", "list"], ["issue", "delete"], {}),
        (["issue", "list"], ["issue", "delete", "12"], {}),
        (["issue"], ["issue", "delete"], {}),
        (["issue", "list"], ["issue", "delete"], {"queries": ("issue list", "issue view")}),
        (["list", "open"], ["delete"], {"queries": ("list",)}),
        (["show", "12x"], ["-C", "elsewhere", "show", "12"], {}),
        (["issue", "list", "12x"], ["issue", "close", "12"], {"verb_words": 3}),
    ],
)
def test_a_fix_that_may_do_something_else_needs_a_confirmation(
    args: list[str], fixed: list[str], options: dict[str, Any]
) -> None:
    """SED-1"""
    result, tries = try_once_more(args, fixed, **options)
    assert isinstance(result, ChangedVerb) and result.args == tuple(fixed) and tries == 1


def test_the_number_of_tries_is_an_argument(shelves: Shelves) -> None:
    """SED-9"""
    made: list[Try] = []
    refused = run_cli(shelves.program, ["list", "--a"], max_tries=5, on_try=made.append)
    assert isinstance(refused, Err) and len(made) == shelves.executions == 5
    assert run_cli(shelves.program, ["list"], max_tries=0) == Err("Max retries exceeded")
    assert shelves.executions == 5
    with pytest.raises(ValueError, match="0 or more"):
        run_cli(shelves.program, ["list"], max_tries=-1)


def test_a_fix_that_changes_the_verb_asks_again(shelves: Shelves, model: ModelServer) -> None:
    model.replies.append(say("delete", "a"))
    result = run_cli(shelves.program, ["list", "--a"], fix=fixer(model), verb_words=1)
    assert isinstance(result, ChangedVerb) and result.args == ("delete", "a")
    assert result.error.endswith(f"confirmed: {shelves.command('delete', 'a')}")
    assert shelves.executions == 1
    asked: list[list[str]] = []

    def confirm(args: list[str]) -> bool:
        asked.append(args)
        return len(asked) > 1

    assert isinstance(
        run_cli(shelves.program, ["list", "--a"], fix=fixer(model), confirm=confirm), ChangedVerb
    )
    assert run_cli(shelves.program, ["list", "--a"], fix=fixer(model), confirm=confirm) == Ok(
        {"delete": "a"}
    )
    assert asked == [["delete", "a"]] * 2 and "delete" in shelves.lines[-1]


def test_a_command_that_is_not_idempotent_is_not_repeated_after_a_timeout(shelves: Shelves) -> None:
    tries: list[Try] = []
    result = run_cli(shelves.slow, ["hang"], idempotent=False, on_try=tries.append)
    assert isinstance(result, Err) and isinstance(result.cause, CommandTimeout)
    assert "may have taken effect" in result.error
    assert [each.timed_out for each in tries] == [True]
    before = shelves.executions
    refused = run_cli(shelves.program, ["list", "--a"], idempotent=False)
    assert isinstance(refused, Err) and shelves.executions == before + 3


def test_a_command_line_of_your_own_may_be_async() -> None:
    calls: list[tuple[str, ...]] = []

    async def run(*args: str) -> dict[str, int]:
        calls.append(args)
        if len(calls) < 3:
            raise TimeoutError("slow")
        return {"n": 1}

    def fix(args: list[str], error: str, help: str) -> list[str]:
        assert (error, help) == ("slow", "")
        return [*args, "more"]

    async def story() -> Result[Any]:
        return await run_cli_async(OwnCli(run), ["list"], fix=fix, verb_words=1)

    assert run_coroutine(story()) == Ok({"n": 1})
    assert calls[-1] == ("list", "more", "more")
    calls.clear()
    assert isinstance(run_cli(OwnCli(run), ["list"], idempotent=False), Err) and len(calls) == 1

    async def call_a_plain_function() -> Result[Any]:
        return run_cli(OwnCli(run), ["list"], idempotent=False)

    calls.clear()
    found = run_coroutine(call_a_plain_function())
    assert isinstance(found, Err) and found.error.startswith("slow") and len(calls) == 1


def test_a_cancelled_coroutine_stops_the_program(shelves: Shelves) -> None:
    async def story() -> None:
        task = asyncio.create_task(run_cli_async(shelves.program, ["hang"]))
        while not shelves.lines:
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_coroutine(asyncio.wait_for(story(), PATIENCE_S))
    assert shelves.executions == 1


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 3", "sh ended with exit code 3."),
        ("echo out; exit 1", "out"),
        ("yes | head -c 5000000", "sh printed more than 4 MiB."),
        ("printf '\\377'; exit 1", "\ufffd"),
        ("kill -9 $$", "sh ended with exit code 137."),
    ],
)
def test_the_ends_of_programs(script: str, expected: str) -> None:
    assert try_cli(Program("sh"), ["-c", script]) == Err(expected)


def test_a_program_that_is_missing_or_reads_its_input() -> None:
    assert try_cli(Program("no-such-program"), []) == Err(
        "no-such-program: No such file or directory"
    )
    assert try_cli(Program("cat"), []) == Ok("")
    assert Program("no-such-program").get_help() == ""


def test_children_end_with_the_program(tmp_path: Path) -> None:
    script = 'sleep 600 & echo $! > "$1"; wait'
    args = ["-c", script, "sh", str(tmp_path / "pid")]
    result = try_cli(Program("sh", timeout_s=3), args)
    assert isinstance(result, Err) and isinstance(result.cause, CommandTimeout)
    child = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_running(child))


def test_secrets_of_the_environment_stay_here(
    model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELF_PASSWORD", "open sesame 1")
    model.replies.append(say("-c", "echo $SHELF_PASSWORD; exit 1"))
    result = run_cli("sh", ["-c", "echo $SHELF_PASSWORD; exit 2"], fix=fixer(model))
    assert isinstance(result, Err) and result.error.startswith("[redacted:env]. ")
    assert "sesame" not in str(model.asked)
    assert try_cli(Program("sh"), ["-c", "echo $SHELF_PASSWORD"]) == Ok("open sesame 1\n")


# ---- reported in Tenfour


def test_each_try_is_an_attempt(
    shelves: Shelves, model: ModelServer, agent_client: Client, producer: Client
) -> None:
    model.replies.append(say("list", "--json"))
    result = run_cli(shelves.program, ["list", "--jsonn"], fix=fixer(model), client=agent_client)
    assert result == Ok([{"name": "a"}])
    (task,) = producer.tasks.list()
    assert (task.state, task.type, task.result) == ("done", "command", [{"name": "a"}])
    assert task.title == shelves.command("list", "--jsonn")
    second, first = producer.tasks.attempts(task.id)
    assert first.failure and "unrecognized arguments: list --jsonn" in first.failure["message"]
    assert "list --jsonn" in first.failure["details"] and second.outcome == "success"


def test_a_command_that_fails_for_good_is_a_dead_letter(
    shelves: Shelves, agent_client: Client, producer: Client
) -> None:
    assert isinstance(run_cli(shelves.program, ["list", "--a"], client=agent_client), Err)
    (task,) = producer.tasks.list()
    assert task.state == "failed" and len(list(producer.tasks.attempts(task.id))) == 3
    (letter,) = producer.dead_letters.list()
    assert "unrecognized arguments: list --a" in letter.error


def test_a_timeout_of_what_is_not_idempotent_asks_a_person(
    shelves: Shelves, agent_client: Client, producer: Client
) -> None:
    result = run_cli(shelves.slow, ["hang"], idempotent=False, client=agent_client)
    assert isinstance(result, Err) and shelves.executions <= 1
    (escalation,) = producer.escalations.list()
    assert escalation.is_open and escalation.reason == "needs_confirmation"


def test_an_unconfirmed_fix_ends_the_task(
    shelves: Shelves, model: ModelServer, agent_client: Client, producer: Client
) -> None:
    model.replies.append(say("delete", "a"))
    result = run_cli(shelves.program, ["list", "--a"], fix=fixer(model), client=agent_client)
    assert isinstance(result, ChangedVerb)
    (letter,) = producer.dead_letters.list()
    assert shelves.command("delete", "a") in letter.error


def test_a_task_that_a_person_aborts_ends_the_tries(
    shelves: Shelves, model: ModelServer, agent_client: Client, producer: Client
) -> None:
    def abort(asked: Asked) -> dict[str, Any]:
        (task,) = producer.tasks.list()
        producer.tasks.abort(task.id)
        return say("list")

    model.replies.append(abort)
    result = run_cli(shelves.program, ["list", "--a"], fix=fixer(model), client=agent_client)
    assert isinstance(result, Err) and "stopped" in result.error
    assert shelves.executions == 1
    (task,) = producer.tasks.list()
    assert task.state == "aborted"


def test_without_a_server_the_command_runs_all_the_same(
    shelves: Shelves, model: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    model.replies.append(say("list"))
    with Client("http://127.0.0.1:1", "tenfour_agt_none", retries=0) as away:
        assert run_cli(shelves.program, ["list", "--x"], fix=fixer(model), client=away) == Ok("a\n")
    assert [text for text in caplog.messages if "could not be reported" in text] != []


def test_the_tries_are_the_progress_of_a_live_attempt(
    shelves: Shelves, model: ModelServer, agent_client: Client
) -> None:
    """S4.19: with the duration of each."""
    model.replies.append(say("list"))
    (claim,) = agent_client.tasks.enqueue_and_claim("code")
    with agent_client.attempt(claim) as attempt:
        assert run_cli(shelves.program, ["list", "--a"], fix=fixer(model), attempt=attempt) == Ok(
            "a\n"
        )
        now = agent_client.tasks.attempt(attempt.id)
        assert now.progress and now.progress["message"] == "Try 2 succeeded"
        tries = now.progress["details"]["tries"]
        assert [made["error"] is None for made in tries] == [False, True]
        assert all(made["duration_s"] >= 0 for made in tries)
    assert attempt.decision and attempt.decision.decision == "done"
