"""Running a command: what it prints is passed on and kept, and it can be stopped with its brood."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tenfour.redaction.masking import masked
from tenfour.runs import runner
from tenfour.runs.output_buffer import OutputBuffer
from tenfour.runs.runner import CommandResult


def ran(*argv: str, should_stop: Callable[[], bool] = lambda: False) -> CommandResult:
    return runner.run(argv, env=os.environ, should_stop=should_stop)


def ran_until(text: str, *argv: str) -> CommandResult:
    """Run a command and stop it when it has printed a text."""
    output = OutputBuffer()
    return runner.run(
        argv, env=os.environ, should_stop=lambda: text in output.text(), output=output
    )


def python(code: str) -> tuple[str, str, str]:
    return sys.executable, "-c", code


def test_both_outputs_are_passed_on_and_kept(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    mark, output = tmp_path / "go", OutputBuffer()

    def let_it_go_on() -> bool:
        if "b" in output.text():
            mark.touch()
        return False

    script = "printf 'a\\377b'; until test -e \"$1\"; do sleep 0.02; done; echo c >&2; exit 3"
    argv = ["sh", "-c", script, "sh", str(mark)]
    ended = runner.run(argv, env=os.environ, should_stop=let_it_go_on, output=output)
    assert (ended.code, ended.output, ended.was_stopped) == (3, "a\ufffdbc\n", False)
    assert capfdbinary.readouterr() == (b"a\xffb", b"c\n")


def test_an_output_that_is_not_shown_keeps_its_order() -> None:
    """AGT-21."""
    script = "for n in 1 2 3 4 5 6 7 8 9; do echo out $n; echo err $n >&2; done"
    ended = runner.run(
        ["sh", "-c", script], env=os.environ, should_stop=lambda: False, is_shown=False
    )
    assert ended.output == "".join(f"out {n}\nerr {n}\n" for n in range(1, 10))


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["true"], 0),
        (["sh", "-c", "kill -TERM $$"], 143),
        (["sh", "-c", "kill -KILL $$"], 137),
        (["no-such-command-here"], 127),
        (["/etc/passwd"], 126),
    ],
)
def test_exit_codes_are_those_of_a_shell(argv: list[str], code: int) -> None:
    assert ran(*argv).code == code


def test_it_is_stopped_with_all_that_it_has_started() -> None:
    ended = ran_until("up", "sh", "-c", "echo up; sleep 600 & wait")
    assert ended == CommandResult(143, "up\n", was_stopped=True)


def test_what_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "GRACE_S", 0.3)
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); "
    ended = ran_until("up", *python(deaf + "time.sleep(600)"))
    assert ended == CommandResult(137, "up\n", was_stopped=True)


def test_an_interrupt_stops_it_too() -> None:
    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran("sleep", "600", should_stop=interrupted)


def test_what_it_leaves_running_does_not_hold_the_end_up() -> None:
    ended = ran("sh", "-c", "echo done; sleep 600 & exit 0")
    assert ended.group and ended == CommandResult(0, "done\n", group=ended.group)
    runner.stop_group(ended.group)
    with pytest.raises(ProcessLookupError):
        os.killpg(ended.group, 0)


def test_it_reads_what_it_is_given_and_need_not() -> None:
    data = b"x" * 1_000_000
    assert runner.run(
        ["wc", "-c"], env=os.environ, should_stop=lambda: False, stdin=data
    ).output.strip() == str(len(data))
    assert runner.run(["true"], env=os.environ, should_stop=lambda: False, stdin=data).code == 0


def test_arguments_that_the_system_refuses_run_nothing() -> None:
    with pytest.raises(runner.ArgumentsTooLarge):
        ran("echo", "x" * 200_000)


def test_values_of_the_environment_that_are_secret_are_masked() -> None:
    secret = "correct" + "horse"
    environ = {
        "DB_PASSWORD": secret,
        "TENFOUR_TOKEN": f"{secret}-battery",
        "API_KEY": "short",
        "SECRET_FILE": "/run/secrets/one",
        "PWD": "/srv/place",
        "AUTHOR": "Somebody Else",
    }
    text = f"{secret}-battery {secret} short /run/secrets/one /srv/place Somebody Else"
    assert masked(text, environ) == (
        "[redacted:env] [redacted:env] short /run/secrets/one /srv/place Somebody Else"
    )
