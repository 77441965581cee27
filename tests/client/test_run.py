"""Tasks with the command `tenfour`, run as a process against a real server."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tenfour import Client, Task

from retries.models import AttemptDiff
from tests.client.conftest import Run
from tests.client.faulty import FaultyLine, problem
from tests.serving import Tenfour, environment
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def as_producer(tenfour_server: Tenfour) -> dict[str, str]:
    return {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("orchestrator"),
    }


@pytest.fixture
def as_coder(tenfour_server: Tenfour) -> dict[str, str]:
    return {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
    }


# A retry is due when the attempt before has failed.
AT_ONCE = {"base_delay_ms": 0}


def the_task(producer: Client) -> Task:
    (task,) = producer.tasks.list()
    return task


# ---- enqueue, claim, report


def test_enqueue_claim_report(
    run: Run, as_producer: dict[str, str], as_coder: dict[str, str], producer: Client
) -> None:
    sent = run("enqueue", "coder", "code", '{"n": 1}', "--title", "Mend", env=as_producer)
    id = sent.out.strip()
    assert (sent.status, len(id), sent.err) == (0, 36, "")
    claim = run("claim", env=as_coder)
    attempt = claim.out.strip()
    assert (claim.status, len(attempt), claim.err) == (0, 36, "")
    done = run(
        *("report", attempt, "--status", "success", "--result", '{"m": 2}', "--summary", "well"),
        env=as_coder,
    )
    assert (done.status, done.out) == (0, "done reported\n")
    task = producer.tasks.get(id)
    assert (task.title, task.payload, task.result) == ("Mend", {"n": 1}, {"m": 2})


def test_every_option_of_enqueue_arrives(
    run: Run, as_producer: dict[str, str], producer: Client
) -> None:
    first = run("enqueue", "new", "code", "-", "--register", stdin="[1]\n", env=as_producer)
    options = ["--priority", "7", "--max-attempts", "5", "--lease", "60", "--timeout", "600"]
    more = ["--needs", first.out.strip(), "--on-exhausted", "escalate", "--json"]
    whole = json.loads(run("enqueue", "new", "code", *options, *more, env=as_producer).out)
    known = ("priority", "max_attempts", "lease_s", "timeout_s", "on_exhausted", "blocked_reason")
    assert [whole[name] for name in known] == [7, 5, 60, 600, "escalate", "dependency"]
    assert producer.tasks.get(first.out.strip()).payload == [1]


def test_no_task_is_3_with_the_reason(run: Run, as_coder: dict[str, str]) -> None:
    for command in (["claim"], ["run", "--", "true"]):
        nothing = run(*command, env=as_coder)
        assert (nothing.status, nothing.out) == (3, "")
        assert nothing.err.startswith("tenfour: No task is waiting; ask again in ")


def test_a_claim_shows_everything_as_json(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    id = producer.tasks.enqueue("coder", "code", {"n": 1}).id
    options = ["--task", id, "--worker", "w-1", "--lease", "60", "--json"]
    first, second = (json.loads(run("claim", *options, env=as_coder).out) for _ in range(2))
    assert first["task"]["id"] == id and first["attempt"]["worker_id"] == "w-1"
    assert second["attempt"]["resumed"] and first["attempt"]["id"] == second["attempt"]["id"]


def test_a_failure_can_be_said_in_words_or_by_an_exit_code(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    for _ in range(3):
        producer.tasks.enqueue("coder", "code", max_attempts=1)
    words = ["--status", "failure", "--type", "timeout", "--message", "-", "--final"]
    first, second, third = (run("claim", env=as_coder).out.strip() for _ in range(3))
    failed = run("report", first, *words, stdin="too slow\n", env=as_coder)
    assert failed.out == "failed non_retryable\n"
    assert (producer.tasks.attempt(first).failure or {})["message"] == "too slow"
    exited = run("report", second, "--exit", "3", "--json", stdin="boom\n", env=as_coder)
    assert json.loads(exited.out)["decision"] == "failed"
    assert (producer.tasks.attempt(second).failure or {})["message"] == "boom"
    asks = run("report", third, "--status", "failure", "--code", "impossible", env=as_coder)
    assert asks.out == "escalated impossible\n"
    late = run("report", first, "--status", "success", env=as_coder)
    assert late.status == 1 and "reported before" in late.err


def test_a_question_ends_the_attempt_and_is_answered_in_the_next_prompt(
    run: Run, as_coder: dict[str, str], producer: Client, tenfour_server: Tenfour
) -> None:
    id = producer.tasks.enqueue("coder", "code").id
    attempt = run("claim", env=as_coder).out.strip()
    options = ["--option", "yes", "--option", "no", "--severity", "high"]
    unnamed = run("ask", "Drop it?", *options, env=as_coder)
    assert unnamed.status == 2 and "--attempt" in unnamed.err
    asked = run("ask", "-", "--attempt", attempt, *options, stdin="Drop it?\n", env=as_coder)
    with tenfour_server.client("operator") as operator:
        question = operator.escalations.get(asked.out.strip())
        assert (asked.status, question.severity) == (0, "high") and question.url in asked.err
        assert "Drop it?" in json.dumps(question.raw)
        assert producer.tasks.get(id).state == "escalated"
        operator.escalations.resolve(question.id, text="answer: no")
    prompt = json.loads(run("claim", "--json", env=as_coder).out)["prompt"]
    assert "Drop it?" in prompt and "no" in prompt
    late = run("ask", "Again?", "--attempt", attempt, env=as_coder)
    assert late.status == 1 and late.out == ""


# ---- run


def test_a_command_asks_about_the_attempt_that_it_is_part_of(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    ask = f"{shlex.quote(sys.executable)} -m tenfour ask 'Drop it?' --option yes"
    ran = run("run", "--name", "Drop", "--", "sh", "-c", ask, env=as_coder)
    assert ran.status == 75 and "A person is asked: http" in ran.err
    assert the_task(producer).state == "escalated"


def test_run_makes_a_task_and_runs_a_command_as_its_attempt(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    ran = run("run", "--name", "Say so", "--", "sh", "-c", "echo yes; echo no >&2", env=as_coder)
    assert (ran.status, ran.out, ran.err) == (0, "yes\n", "no\n")
    task = the_task(producer)
    assert (task.title, task.type, task.state) == ("Say so", "command", "done")
    assert task.payload == {"command": "sh -c 'echo yes; echo no >&2'"}


def test_run_takes_the_next_task_and_tells_the_command_about_it(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    for n in range(2):
        producer.tasks.enqueue("coder", "code", {"n": n})
    last = producer.tasks.enqueue("coder", "code", {"n": 2}).id
    script = 'echo $TENFOUR_TASK $TENFOUR_ATTEMPT_NUMBER; stat -c %a "$TENFOUR_TASK_FILE"; cat $TENFOUR_TASK_FILE'
    ran = run("run", "--", "sh", "-c", script, env=as_coder)
    told, mode, task = ran.out.split("\n", 2)
    assert told == f"{json.loads(task)['id']} 1" and mode == "600"
    assert json.loads(task)["payload"] == {"n": 0}
    ran = run(
        "run",
        "--task",
        last,
        "--",
        "sh",
        "-c",
        "cat; echo $TENFOUR_TASK",
        stdin="in ",
        env=as_coder,
    )
    assert ran.out == f"in {last}\n" and producer.tasks.get(last).state == "done"


def test_run_reports_what_the_command_used(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    task = producer.tasks.enqueue("coder", "code", {"n": 1})
    script = """echo '{"input_tokens": 7, "cost_usd": 0.5}' >$TENFOUR_USAGE_FILE"""
    assert run("run", "--", "sh", "-c", script, env=as_coder).status == 0
    [attempt] = producer.tasks.attempts(task.id)
    assert attempt.usage == {"input_tokens": 7, "cost_usd": 0.5}
    for how in (["--status", "failure"], ["--exit", "1"]):
        task = producer.tasks.enqueue("coder", "code", {"n": 2}, max_attempts=1)
        id = run("claim", env=as_coder).out.strip()
        report = ["report", id, *how, "--usage", '{"output_tokens": 9}']
        assert run(*report, stdin="", env=as_coder).status == 0
        [attempt] = producer.tasks.attempts(task.id)
        assert attempt.usage == {"output_tokens": 9}
    wrong = run("report", attempt.id, "--exit", "1", "--usage", "9", stdin="", env=as_coder)
    assert wrong.status == 2 and "--usage is not a JSON object." in wrong.err


def test_run_tells_the_command_what_went_wrong_before(
    run: Run, as_coder: dict[str, str], producer: Client, tmp_path: Path
) -> None:
    """api.md §9.2: in files that no one else can read, and in arguments that stay one."""
    action = "say $(id) {retry_context} 'ä'"
    sent = producer.tasks.enqueue("coder", "code", {"action": action}, backoff=AT_ONCE)
    script = """cd "$1"; n=$TENFOUR_ATTEMPT_NUMBER; printf %s "$2" >argument$n; printf %s "$3" >context$n
        cp "$TENFOUR_PROMPT_FILE" prompt$n; cp "$TENFOUR_RETRY_CONTEXT_FILE" block$n; echo $# >count$n
        stat -c %a "$TENFOUR_PROMPT_FILE" "$TENFOUR_RETRY_CONTEXT_FILE"; test $n = 2"""
    command = ["sh", "-c", script, "sh", str(tmp_path), "{prompt}", "<{retry_context}>"]

    def told(number: int) -> list[str]:
        names = ("argument", "prompt", "context", "block", "count")
        return [(tmp_path / f"{name}{number}").read_text() for name in names]

    ran = run("run", "--", *command, env=as_coder)
    task = f'<task type="code">\n  <action>{action}</action>\n</task>'
    assert (ran.status, ran.out) == (0, "600\n600\n" * 2)
    assert ran.err == "tenfour: Attempt 1 of 3 failed; retrying in 0 s.\n"
    assert told(1) == [task, task, "<>", "", "3\n"]
    argument, prompt, context, block, count = told(2)
    assert block.startswith('<retry_context attempt="2" max_attempts="3">')
    assert "600" in block
    assert prompt == argument == f"{block}\n\n{task}"
    assert (context, count) == (f"<{block}>", "3\n")
    assert producer.tasks.get(sent.id).state == "done"


def test_run_makes_attempts_until_the_task_is_over(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    """api.md §9.2: on `retry` loop; 1 if it failed."""
    script = 'echo "one of two failed"; exit 4'
    ran = run("run", "--name", "x", "--max-attempts", "2", "--", "sh", "-c", script, env=as_coder)
    assert (ran.status, ran.out) == (1, "one of two failed\n" * 2)
    first, second = ran.err.splitlines()
    assert first.startswith("tenfour: Attempt 1 of 2 failed; retrying in ")
    assert second == (
        "tenfour: Attempt 2 of 2 failed, and the task with it (max_retries_exceeded)."
    )
    task = the_task(producer)
    assert (task.state, task.error, task.retry_count) == ("failed", "one of two failed", 2)


def test_max_attempts_bounds_the_run_at_a_task_that_has_its_own_limit(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    producer.tasks.enqueue("coder", "code", backoff=AT_ONCE)
    ran = run("run", "--max-attempts", "2", "--", "false", env=as_coder)
    assert ran.status == 1 and ran.err.endswith("the last of the 2 attempts of --max-attempts.\n")
    assert (the_task(producer).state, the_task(producer).retry_count) == ("retry", 2)


def test_two_runs_at_one_task(run: Run, as_coder: dict[str, str], producer: Client) -> None:
    sent = producer.tasks.enqueue("coder", "code")
    running = start(as_coder, "--task", sent.id, "--", "sh", "-c", "echo up; read line")
    assert running.stdout and running.stdout.readline() == "up\n"
    second = run("run", "--task", sent.id, "--", "true", env=as_coder)
    assert (second.status, second.out) == (1, "")
    assert second.err == f"tenfour: Task {sent.id} is running: another worker has it.\n"
    assert running.communicate("on\n", timeout=PATIENCE_S)[1] == "" and running.returncode == 0
    again = run("run", "--task", sent.id, "--", "true", env=as_coder)
    assert (again.status, again.err) == (0, f"tenfour: Task {sent.id} is done.\n")
    assert producer.tasks.get(sent.id).attempts == 1


def test_a_task_is_found_by_its_ref(run: Run, as_coder: dict[str, str], producer: Client) -> None:
    tasks = [{"ref": f"p-1:task-{number}", "action": "a"} for number in (1, 2)]
    producer.plans.create({"ref": "p-1", "tasks": tasks}, agent="coder")
    one = run("run", "--task", "p-1:task-2", "--", "true", env=as_coder)
    assert (one.status, one.err) == (0, "")
    assert {task.ref: task.state for task in producer.tasks.list()} == {
        "p-1:task-1": "queued",
        "p-1:task-2": "done",
    }
    none = run("run", "--task", "p-1:task-3", "--", "true", env=as_coder)
    assert none.status == 2 and "no task with the ref p-1:task-3" in none.err


def test_a_prompt_comes_over_stdin_and_one_too_large_for_an_argument_costs_no_attempt(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    sent = producer.tasks.enqueue("coder", "code", {"action": "x" * 140_000})
    refused = run("run", "--", "echo", "{prompt}", env=as_coder)
    assert (refused.status, refused.out) == (2, "")
    assert "The text for {prompt} is too large for an argument" in refused.err
    assert "Use --stdin" in refused.err
    task = producer.tasks.get(sent.id)
    assert (task.state, task.retry_count) == ("queued", 0)
    ran = run("run", "--stdin", "--", "wc", "-c", env=as_coder)
    assert ran.status == 0 and int(ran.out) > 140_000
    assert producer.tasks.get(sent.id).state == "done"


def test_an_exit_code_of_0_is_not_passed_on_where_the_task_is_not_done(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    verify = {"command": "true", "expect_exit": 1}
    producer.tasks.enqueue("coder", "code", {"verify": verify}, max_attempts=1)
    ran = run("run", "--", "true", env=as_coder)
    assert (ran.status, the_task(producer).state) == (1, "failed")
    assert ran.err == (
        "tenfour: Running the verify command that the task declares: true\n"
        "tenfour: Attempt 1 of 1 failed, and the task with it (max_retries_exceeded).\n"
    )


def test_a_secret_of_the_environment_stays_here(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    secret = "correct" + "horse"
    script = f"echo {secret}; exit 1"
    env = as_coder | {"DEPLOY_PASSWORD": secret}
    options = ["--name", "x", "--max-attempts", "1"]
    ran = run("run", *options, "--", "sh", "-c", script, env=env)
    assert ran.out == f"{secret}\n"
    task = the_task(producer)
    assert task.error == "[redacted:env]" and secret not in json.dumps(task.raw)


@pytest.mark.parametrize(
    ("args", "status", "says"),
    [
        (["--", "no-such-command-here"], 2, "not found: no-such-command-here"),
        (["--timeout", "60", "--", "true"], 2, "--name"),
        (["--name", "x"], 2, "COMMAND"),
        (["--name", "x", "--task", "y", "--", "true"], 2, "not allowed with"),
    ],
)
def test_a_wrong_call_claims_nothing(
    run: Run, as_coder: dict[str, str], producer: Client, args: list[str], status: int, says: str
) -> None:
    producer.tasks.enqueue("coder", "code")
    wrong = run("run", *args, env=as_coder)
    assert wrong.status == status and says in wrong.err and "Traceback" not in wrong.err
    assert the_task(producer).state == "queued"


def start(env: dict[str, str], *args: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tenfour", "run", *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(env),
    )


def test_the_lease_is_renewed_while_it_runs_and_an_abort_stops_it(
    as_coder: dict[str, str], producer: Client
) -> None:
    """A lease of 5 s has a heartbeat every second."""
    running = start(as_coder, "--name", "x", "--lease", "5", "--", "sh", "-c", "echo up; sleep 60")
    assert running.stdout and running.stdout.readline() == "up\n"
    task = the_task(producer)
    attempt = task.current_attempt or ""
    before = producer.tasks.attempt(attempt).lease_expires_at
    assert before

    def is_renewed() -> bool:
        now = producer.tasks.attempt(attempt).lease_expires_at
        return now is not None and now > before

    wait_until(is_renewed)
    producer.tasks.abort(task.id)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, err) == (130, "tenfour: The task was aborted.\n")
    assert the_task(producer).state == "aborted"


def test_a_running_command_gets_what_its_heartbeats_announce(
    as_coder: dict[str, str], producer: Client, tmp_path: Path
) -> None:
    file = tmp_path / "messages"
    file.touch()
    script = f"echo up; until grep -q parser {shlex.quote(str(file))}; do sleep 0.1; done"
    options = ("--name", "x", "--lease", "5", "--messages", str(file))
    running = start(as_coder, *options, "--", "sh", "-c", script)
    assert running.stdout and running.stdout.readline() == "up\n"
    sent = producer.instructions.send("coder", "Stop after the parser")
    assert running.communicate(timeout=PATIENCE_S)[1] == "" and running.returncode == 0
    assert json.loads(file.read_text()) == {"id": sent.id, "text": "Stop after the parser"}
    assert producer.instructions.get(sent.id).delivered_via == "heartbeat"


def test_what_a_running_command_used_so_far_reaches_the_attempt(
    as_coder: dict[str, str], producer: Client, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    usage = """echo '{"input_tokens": 7}' >$TENFOUR_USAGE_FILE"""
    script = f"{usage}; echo up; until [ -e {shlex.quote(str(go))} ]; do sleep 0.1; done"
    running = start(as_coder, "--name", "x", "--lease", "5", "--", "sh", "-c", script)
    assert running.stdout and running.stdout.readline() == "up\n"
    id = the_task(producer).current_attempt or ""
    wait_until(lambda: producer.tasks.attempt(id).usage == {"input_tokens": 7})
    go.touch()
    running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0


def test_the_limits_that_a_stream_tells_reach_the_account(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    producer.tasks.enqueue("coder", "code", {"n": 1})
    info = {"status": "allowed", "rateLimitType": "seven_day", "utilization": 0.25}
    line = json.dumps({"type": "rate_limit_event", "rate_limit_info": info})
    ran = run("run", "--", "sh", "-c", f"echo '{line}'; echo end", env=as_coder)
    assert ran.status == 0, ran.err
    [limit] = producer.agents.get("coder").limits
    assert (limit["window"], limit["used"], limit["source"]) == ("week", 0.25, "claude")


def test_the_last_lines_show_while_it_runs_and_stay(
    as_coder: dict[str, str], producer: Client
) -> None:
    secret = "correct" + "horse"
    script = f"echo early; echo {secret}; read line; echo late"
    env = as_coder | {"DEPLOY_PASSWORD": secret}
    running = start(env, "--name", "x", "--lease", "5", "--", "sh", "-c", script)
    wait_until(lambda: bool(list(producer.tasks.list())))
    wait_until(lambda: last_output(producer) == "early\n[redacted:env]\n")
    assert running.communicate("on\n", timeout=PATIENCE_S)[1] == "" and running.returncode == 0
    assert last_output(producer) == "early\n[redacted:env]\nlate\n"


def live_output(producer: Client) -> str:
    (attempt,) = producer.tasks.attempts(the_task(producer).id)
    return "".join(piece["text"] for piece in producer.tasks.output(attempt.id).data)


def test_the_output_is_followed_while_it_runs_and_stays(
    run: Run, as_coder: dict[str, str], as_producer: dict[str, str], producer: Client
) -> None:
    secret = "correct" + "horse"
    script = f"seq 1 3000; echo {secret}; printf 'go on? '; read line; echo late; seq 3001 9000"
    env = as_coder | {"DEPLOY_PASSWORD": secret}
    running = start(env, "--name", "x", "--", "sh", "-c", script)
    wait_until(lambda: bool(list(producer.tasks.list())))
    before = "".join(f"{number}\n" for number in range(1, 3001)) + "[redacted:env]\n"
    wait_until(lambda: live_output(producer) == before + "go on? ")
    id = the_task(producer).id
    command = [sys.executable, "-m", "tenfour", "task", "output", id, "--follow"]
    follower = subprocess.Popen(
        command, env=environment(as_producer), stdout=subprocess.PIPE, text=True
    )
    running.communicate("on\n", timeout=PATIENCE_S)
    after = "late\n" + "".join(f"{number}\n" for number in range(3001, 9001))
    assert running.returncode == 0 and live_output(producer) == before + "go on? " + after
    assert follower.communicate(timeout=PATIENCE_S)[0] == before + "go on? " + after
    assert run("task", "output", id, env=as_producer).out == before + "go on? " + after
    missing = run("task", "output", id, "--attempt", "2", env=as_producer)
    assert missing.status == 2 and "no such attempt" in missing.err


def test_an_older_server_is_asked_once_for_the_output(
    as_coder: dict[str, str], line: FaultyLine, producer: Client
) -> None:
    line.unknown = "/output"
    env = as_coder | {"TENFOUR_URL": line.url}
    script = "for n in 1 2 3 4; do echo $n; sleep 1; done"
    running = start(env, "--name", "x", "--", "sh", "-c", script)
    assert running.communicate(timeout=PATIENCE_S)[1] == "" and running.returncode == 0
    assert [each.path.rpartition("/")[2] for each in line.seen].count("output") == 1
    assert last_output(producer) == "1\n2\n3\n4\n"


def last_output(producer: Client) -> str:
    attempts = producer.tasks.attempts(the_task(producer).id)
    return next((attempt.last_output for attempt in attempts), "")


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_stops_the_command_and_gives_the_task_back(
    as_coder: dict[str, str], producer: Client, tmp_path: Path, sent: signal.Signals, status: int
) -> None:
    mark = tmp_path / "pid"
    script = 'echo $$ > "$1"; echo up; sleep 60'
    running = start(as_coder, "--name", "x", "--", "sh", "-c", script, "sh", str(mark))
    assert running.stdout and running.stdout.readline() == "up\n"
    running.send_signal(sent)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, err) == (status, "")
    task = the_task(producer)
    assert (task.state, task.retry_count) == ("queued", 0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_a_lease_that_is_lost_stops_the_command(
    as_coder: dict[str, str], producer: Client, agent_client: Client
) -> None:
    running = start(as_coder, "--name", "x", "--lease", "5", "--", "sh", "-c", "echo up; sleep 60")
    assert running.stdout and running.stdout.readline() == "up\n"
    agent_client.tasks.release(the_task(producer).current_attempt or "")
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1 and "is over" in err and "Traceback" not in err
    assert the_task(producer).state == "queued"


def test_a_report_waits_for_a_server_that_is_away(
    run: Run, as_coder: dict[str, str], producer: Client, line: FaultyLine, tmp_path: Path
) -> None:
    mark = tmp_path / "go"
    script = f"echo up; until test -e {shlex.quote(str(mark))}; do sleep 0.1; done; echo fine"
    running = start(as_coder | {"TENFOUR_URL": line.url}, "--name", "x", "--", "sh", "-c", script)
    assert running.stdout and running.stdout.readline() == "up\n"
    line.faults.extend([problem(503, "temporarily_unavailable", Retry_After="0")] * 1000)
    before = len(line.seen)
    mark.touch()
    # More than the tries of a heartbeat and of one call that reports.
    wait_until(lambda: sum("/exit" in seen.path for seen in line.seen[before:]) > 3)
    line.faults.clear()
    out, err = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, out) == (0, "fine\n")
    assert err.startswith("tenfour: temporarily_unavailable")
    assert the_task(producer).state == "done"


def test_what_a_command_has_done_is_checked(
    run: Run, as_coder: dict[str, str], producer: Client, tmp_path: Path
) -> None:
    """api.md §9.2: the check's exit code decides; it does not run where the command has failed."""
    made, missing = tmp_path / "made", tmp_path / "missing"
    checks = [f"echo checked; test -e {shlex.quote(str(path))}" for path in (made, missing)]
    passes, fails = (["--max-attempts", "1", "--verify", check] for check in checks)
    worked = run("run", "--name", "A", *passes, "--", "touch", str(made), env=as_coder)
    assert (worked.status, worked.out) == (0, "checked\n")
    wrong = run("run", "--name", "B", *fails, "--", "echo", "all is well", env=as_coder)
    assert (wrong.status, wrong.out) == (1, "all is well\nchecked\n")
    broken = run("run", "--name", "C", *fails, "--", "sh", "-c", "exit 7", env=as_coder)
    assert (broken.status, broken.out) == (1, "")
    found = {task.title: task for task in producer.tasks.list()}
    assert [found[name].state for name in "ABC"] == ["done", "failed", "failed"]


def test_the_tasks_own_check_is_run(run: Run, as_coder: dict[str, str], producer: Client) -> None:
    verify = {"command": "echo no\x1b[1m; exit 3"}
    sent = producer.tasks.enqueue("coder", "code", {"verify": verify}, max_attempts=1)
    done = run("run", "--task", sent.id, "--", "true", env=as_coder)
    assert done.status == 1 and done.err.startswith(
        "tenfour: Running the verify command that the task declares: echo no; exit 3\n"
    )
    task = producer.tasks.get(sent.id)
    assert (task.state, task.error) == ("failed", "no")
    (attempt,) = producer.tasks.attempts(sent.id)
    assert (attempt.failure or {})["type"] == "verification_failed"


def git(folder: Path, *args: str) -> None:
    names = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *names, *args], cwd=folder, check=True, capture_output=True)


BREAK = "echo two >> app.py; echo 'key = $MY_TOKEN' >> app.py; echo new > new-$TENFOUR_ATTEMPT.py; exit 1"


def test_the_diff_of_a_failed_attempt_is_sent_where_asked(
    run: Run, as_coder: dict[str, str], producer: Client, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-b", "main")
    (tmp_path / "app.py").write_text("one\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "Begin")
    (tmp_path / "app.py").write_text("one\nunfinished\n")
    index = (tmp_path / ".git/index").read_bytes()
    env = as_coder | {"MY_TOKEN": "hunter2hunter2"}
    script = BREAK.replace("$MY_TOKEN", env["MY_TOKEN"])
    for options in ([], ["--diffs"]):
        ran = run(
            *("run", "--name", "A", "--max-attempts", "1", *options, "--", "sh", "-c", script),
            env=env,
            cwd=tmp_path,
        )
        assert (ran.status, "diff" in ran.err) == (1, False), ran.err
    without, sent = (
        AttemptDiff.objects.filter(attempt__task_id=task.id).first()
        for task in sorted(producer.tasks.list(), key=lambda task: task.created_at)
    )
    assert without is None and sent is not None
    # what the attempt changed, not what was there before it
    assert "+two\n+key = [redacted:env]\n" in sent.diff and "+unfinished" not in sent.diff
    assert f"b/new-{sent.attempt_id}.py" in sent.diff
    environment = sent.environment or {}
    assert (environment["folder"], environment["branch"]) == (str(tmp_path), "main")
    assert environment["python"].startswith("Python 3")
    assert (tmp_path / ".git/index").read_bytes() == index


def test_without_git_a_run_says_once_that_no_diff_is_sent(
    run: Run, as_coder: dict[str, str], producer: Client, tmp_path: Path
) -> None:
    producer.tasks.enqueue("coder", "code", max_attempts=2, backoff=AT_ONCE)
    # The folders of tests lie in a repository.
    env = as_coder | {"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    ran = run("run", "--diffs", "--", "false", env=env, cwd=tmp_path)
    assert ran.status == 1
    assert ran.err.count("tenfour: No diff is sent: not a git repository") == 1
    (task,) = producer.tasks.list()
    assert (task.state, len(list(producer.tasks.attempts(task.id)))) == ("failed", 2)


def test_a_check_that_fails_where_it_passed_before_runs_once_more(
    run: Run, as_coder: dict[str, str], producer: Client, tmp_path: Path
) -> None:
    """Design §4: the check alone, on the same files; where both results differ it is flaky."""
    source, count = tmp_path / "source", tmp_path / "count"
    source.mkdir()
    git(source, "init")
    (source / "app.py").write_text("one\n")
    git(source, "add", ".")
    git(source, "commit", "-m", "Begin")
    env = as_coder | {"TENFOUR_STATE": str(tmp_path / "state")}
    # the results of the runs, one after the other
    codes = {"A": "0", "B": "10", "C": "11", "D": "1"}
    path = shlex.quote(str(count))
    check = f"code=$(head -c 1 {path}); sed -i s/.// {path}; exit $code"
    for name, each in codes.items():
        count.write_text(each)
        if name == "D":
            (source / "app.py").write_text("two\n")  # on which it has not passed
        limits = ("--max-attempts", "1", "--verify", check)
        ran = run("run", "--name", name, *limits, "--", "true", env=env, cwd=source)
        assert count.read_text() == "", name
        assert ("it is flaky" in ran.err) == (name == "B"), ran.err
    tasks = {task.title: task for task in producer.tasks.list()}
    assert [tasks[name].state for name in codes] == ["done", "done", "failed", "failed"]
    for name, each in codes.items():
        (attempt,) = producer.tasks.attempts(tasks[name].id)
        assert [str(check["exit_code"]) for check in attempt.raw["checks"]] == list(each)


def test_the_next_attempt_is_told_the_suspicious_lines_of_a_coverage_file(
    run: Run, as_coder: dict[str, str], producer: Client, tmp_path: Path
) -> None:
    ran = {"shop/cart.py": {"contexts": {"3": ["t.test_a", "t.test_b"], "7": ["t.test_a"]}}}
    (tmp_path / "new.json").write_text(json.dumps({"files": ran}))
    check = f"cd {shlex.quote(str(tmp_path))}; echo FAILED t.py::test_a - no; cp new.json coverage.json; exit 1"
    file = str(tmp_path / "coverage.json")
    options = ["--name", "Repair", "--max-attempts", "1", "--verify", check, "--coverage"]
    ended = run("run", *options, file, "--", "true", env=as_coder)
    assert ended.status != 0 and "coverage file" not in ended.err
    (attempt,) = producer.tasks.attempts(the_task(producer).id)
    suspects = (attempt.failure or {})["verification"]["suspects"]
    assert [(each["line"], each["score"]) for each in suspects] == [(7, 1.0), (3, 0.71)]
    os.utime(file, (0, 0))
    stale = run("run", *options[:-2], "exit 1", "--coverage", file, "--", "true", env=as_coder)
    assert "names no suspicious lines: the verify command has not written it." in stale.err
