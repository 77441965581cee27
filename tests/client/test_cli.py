"""The command `tenfour`, run as a process."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tenfour import Client
from tenfour.version import __version__

from tests.client.conftest import Run
from tests.client.faulty import FaultyLine, problem
from tests.serving import Tenfour, environment
from tests.waiting import PATIENCE_S

UNKNOWN = "00000000-0000-7000-8000-000000000000"


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


def test_version_and_help_need_no_server(run: Run) -> None:
    assert run("--version").out == f"tenfour {__version__}\n"
    assert "doctor" in run("--help").out
    assert run("send", "--help").status == 0


def test_send_pull_ack(run: Run, as_producer: dict[str, str], as_coder: dict[str, str]) -> None:
    sent = run("send", "coder", "Look\nagain", env=as_producer)
    id = sent.out.strip()
    assert (sent.status, len(id), sent.err) == (0, 36, "")
    pulled = run("pull", env=as_coder)
    assert (pulled.status, pulled.out, pulled.err) == (0, "Look\nagain\n", "")
    acked = run("ack", id, "--outcome", "accepted", "--note", "soon", env=as_coder)
    assert (acked.status, acked.out) == (0, f"{id} acknowledged\n")
    assert run("ack", id, env=as_coder).status == 0
    assert run("pull", env=as_coder).out == ""


def test_pulled_texts_carry_neither_id_nor_protocol(
    run: Run, as_producer: dict[str, str], as_coder: dict[str, str]
) -> None:
    for text in ("one", "two", "three"):
        run("send", "coder", text, env=as_producer)
    assert run("pull", "--limit", "2", env=as_coder).out == "one\n\ntwo\n"
    whole = json.loads(run("pull", "--json", env=as_coder).out)
    assert [(row["text"], row["state"]) for row in whole["data"]] == [("three", "delivered")]


def test_a_text_comes_from_stdin_without_its_last_newline(
    run: Run, as_producer: dict[str, str], as_coder: dict[str, str]
) -> None:
    run("send", "coder", "-", stdin="Lies nach: größer → kleiner\n", env=as_producer)
    assert run("pull", env=as_coder).out == "Lies nach: größer → kleiner\n"


def test_every_option_of_send_arrives(
    run: Run, as_producer: dict[str, str], as_coder: object
) -> None:
    options = ["--max-retries", "0", "--priority", "--on-failed", "escalate", "--json"]
    expect = ["--expect", "fs_command", '{"command": "git"}']
    for args in (["coder", "Look", *expect, *options], [*expect, *options, "coder", "Look 2"]):
        whole = json.loads(run("send", *args, env=as_producer).out)
        assert whole["max_retries"] == 0 and whole["on_failed"] == "escalate"
        assert whole["expect"] == {"type": "fs_command", "match": {"command": "git"}}
    bare = json.loads(
        run("send", "coder", "Look 3", "--expect", "t", "--json", env=as_producer).out
    )
    assert bare["expect"]["type"] == "t"
    plain = json.loads(run("send", "coder", "Look 4", "--plain", "--json", env=as_producer).out)
    assert plain["tracked"] is False


def test_the_same_instruction_says_that_it_waits_already(
    run: Run, as_producer: dict[str, str], as_coder: object
) -> None:
    first, second = (run("send", "coder", "Look", env=as_producer) for _ in range(2))
    assert first.out == second.out
    assert "already waiting for coder" in second.err


def test_a_signal_prints_what_it_settled(
    run: Run, as_producer: dict[str, str], as_coder: dict[str, str]
) -> None:
    sent = run("send", "coder", "Look", "--expect", "seen", '{"n": 1}', env=as_producer)
    assert "No instruction expects" in run("signal", "seen", '{"n": 2}', env=as_coder).err
    assert run("signal", "seen", "-", stdin='{"n": 1, "m": 2}', env=as_coder).out == sent.out
    assert run("signal", "seen", env=as_coder).status == 0


def test_an_unknown_id_does_not_keep_the_others_from_being_acknowledged(
    run: Run, as_producer: dict[str, str], as_coder: dict[str, str]
) -> None:
    id = run("send", "coder", "Look", env=as_producer).out.strip()
    acked = run("ack", UNKNOWN, "nonsense", id, env=as_coder)
    assert acked.status == 1
    assert acked.out == f"{id} acknowledged\n"
    assert f"tenfour: {UNKNOWN}: " in acked.err and "tenfour: nonsense: " in acked.err


def test_a_late_ack_says_so(
    run: Run, as_producer: dict[str, str], as_coder: dict[str, str], producer: Client
) -> None:
    id = run("send", "coder", "Look", env=as_producer).out.strip()
    producer.instructions.cancel(id)
    acked = run("ack", id, env=as_coder)
    assert (acked.status, acked.out) == (0, f"{id} cancelled (late: it was settled before)\n")


def test_a_refusal_is_one_sentence_with_a_hint_and_the_requests_id(
    run: Run, as_producer: dict[str, str], as_coder: object
) -> None:
    refused = run("send", "codr", "Look", env=as_producer)
    assert refused.status == 1 and refused.out == ""
    assert len(refused.err.splitlines()) == 1
    assert (
        "coder" in refused.err
        and "--register" in refused.err
        and "(request " in refused.err
        and "Traceback" not in refused.err
    )
    made = run("send", "codr", "Look", "--register", env=as_producer)
    assert made.status == 0


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["enqueue", "coder", "code", "--max-attempts", "0"], "--max-attempts: "),
        (["enqueue", "coder", "code", "--lease", "1"], "--lease: "),
        (["enqueue", "coder", "code", "--title", "x" * 2000], "--title: "),
        (["enqueue", "coder", "code", '{"verify": {"timeout_s": "soon"}}'], "PAYLOAD.verify"),
        (["send", "coder", "x", "--max-retries", "999"], "--max-retries: "),
        (["send", "coder", " "], "TEXT"),
    ],
)
def test_a_refusal_names_the_arguments_of_the_command_line(
    run: Run, as_producer: dict[str, str], as_coder: object, args: list[str], says: str
) -> None:
    refused = run(*args, env=as_producer)
    assert refused.status == 1 and says in refused.err, refused.err
    assert not re.search(r"(?<!\S)/[a-z]", refused.err) and "'errors'" not in refused.err


def test_options_of_enqueue_say_what_a_task_should_do(
    run: Run, producer: Client, as_producer: dict[str, str], as_coder: object
) -> None:
    """AGT-15."""
    options = ["--action", "-", "--verify", "make test", "--done", "it builds", "--done", "tested"]
    made = run(
        *("enqueue", "coder", "code", '{"note": 1}', *options, "--files", "a.py"),
        stdin="Repair the build\n",
        env=as_producer,
    )
    assert made.status == 0, made.err
    assert producer.tasks.get(made.out.strip()).payload == {
        "action": "Repair the build",
        "verify": {"command": "make test"},
        "done": ["it builds", "tested"],
        "files": ["a.py"],
        "note": 1,
    }


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (['{"files": ["a.py"]}', "--files", "b.py"], "The payload has 'files' too."),
        (["[1]", "--verify", "make test"], "--verify needs a payload that is a JSON object"),
        (["-", "--action", "-"], "Only one of the payload and --action"),
    ],
)
def test_options_of_enqueue_that_contradict_the_payload_are_refused(
    run: Run, args: list[str], says: str
) -> None:
    refused = run("enqueue", "coder", "code", *args, stdin="{}")
    assert refused.status == 2 and says in refused.err, refused.err


def test_a_server_that_is_away_is_69(run: Run) -> None:
    env = {"TENFOUR_URL": "http://127.0.0.1:1", "TENFOUR_TOKEN": "tenfour_x"}
    away = run("pull", env=env)
    assert (away.status, away.out) == (69, "")
    assert "make up" in away.err


@pytest.mark.parametrize(
    ("args", "env", "says"),
    [
        (["pull"], {}, "TENFOUR_URL is not set"),
        (["pull"], {"TENFOUR_URL": "http://127.0.0.1:1"}, "TENFOUR_TOKEN is not set"),
        (["pull"], {"TENFOUR_URL": "nonsense", "TENFOUR_TOKEN": "tenfour_x"}, "not a web address"),
        (["signal", "t", "{"], {}, "not JSON"),
        (["signal", "t", "[1]"], {}, "not a JSON object"),
        (
            ["send", "a", "b", "--expect", "t", "{x}"],
            {"TENFOUR_URL": "http://h", "TENFOUR_TOKEN": "x"},
            "not JSON",
        ),
        (["send", "a"], {}, "TEXT"),
        (["ack"], {}, "ID"),
        (["fly"], {}, "fly"),
    ],
)
def test_wrong_usage_is_2(run: Run, args: list[str], env: dict[str, str], says: str) -> None:
    wrong = run(*args, env=env)
    assert wrong.status == 2
    assert says in wrong.err and "Traceback" not in wrong.err


def test_stdin_that_is_not_text_is_wrong_usage(as_producer: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tenfour", "send", "coder", "-"],
        input=b"\xff\xfe",
        capture_output=True,
        env=environment(as_producer),
    )
    assert done.returncode == 2 and b"not UTF-8" in done.stderr


def test_url_may_stand_before_or_after_the_command(run: Run, as_coder: dict[str, str]) -> None:
    url, env = as_coder["TENFOUR_URL"], as_coder | {"TENFOUR_URL": "http://127.0.0.1:1"}
    assert run("--url", url, "pull", env=env).status == 0
    assert run("pull", "--url", url, env=env).status == 0


def test_the_token_may_be_in_a_file(run: Run, as_coder: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(as_coder["TENFOUR_TOKEN"] + "\n")
    env = {"TENFOUR_URL": as_coder["TENFOUR_URL"], "TENFOUR_TOKEN_FILE": str(file)}
    assert run("pull", env=env).status == 0


def test_a_reader_that_has_left_is_no_traceback(
    as_producer: dict[str, str], as_coder: dict[str, str], run: Run
) -> None:
    run("send", "coder", "x" * 8000, env=as_producer)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "tenfour", "pull"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment(as_coder),
    )
    os.close(writing)
    assert done.returncode == 1 and done.stderr == b""


@pytest.mark.parametrize("json_lines", [False, True])
def test_follow_outlives_faults_and_ends_when_interrupted(
    run: Run,
    as_producer: dict[str, str],
    as_coder: dict[str, str],
    line: FaultyLine,
    json_lines: bool,
) -> None:
    run("send", "coder", "one", env=as_producer)
    for wait in ("0", "0", "1"):  # the last is what the tries of one call end with
        line.faults.append(problem(503, "temporarily_unavailable", Retry_After=wait))
    following = subprocess.Popen(
        [sys.executable, "-m", "tenfour", "pull", "--follow", *["--json"] * json_lines],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(as_coder | {"TENFOUR_URL": line.url}),
    )
    assert following.stdout and following.stderr
    try:
        first = following.stdout.readline()
        run("send", "coder", "two", env=as_producer)
        second = following.stdout.readline()
        if not json_lines:
            assert (first, second) == ("one\n", "\n")
            assert following.stdout.readline() == "two\n"
        else:
            assert [json.loads(text)["text"] for text in (first, second)] == ["one", "two"]
    finally:
        following.send_signal(signal.SIGINT)
        _, err = following.communicate(timeout=PATIENCE_S)
    assert following.returncode == 130 and "Traceback" not in err
    assert err.startswith("tenfour: temporarily_unavailable")


def test_marker_sets_one_marker_for_each_key(run: Run, tenfour_server: Tenfour) -> None:
    env = {"TENFOUR_URL": tenfour_server.url, "TENFOUR_TOKEN": tenfour_server.token("orchestrator")}
    options = ("--kind", "change", "--at", "2026-11-20T10:00:00Z", "--key", "run-7", "--json")
    first, again = (run("marker", "deploy 2024.11", *options, env=env) for _ in range(2))
    assert first.status == 0 and first.out == again.out, first
    assert json.loads(first.out)["kind"] == "change"
    other = run("marker", "deploy 2024.12", env=env)
    assert other.status == 0 and other.out.strip() != json.loads(first.out)["id"]
