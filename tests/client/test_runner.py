"""Running a command: what it prints is passed on and kept, and it can be stopped with its brood."""

import os
import sys
import time
from collections.abc import Callable

import pytest
from tenfour import runner
from tenfour.redaction import masked
from tenfour.runner import HEAD_BYTES, TAIL_BYTES, CommandResult, OutputBuffer


def ran(*argv: str, should_stop: Callable[[], bool] = lambda: False) -> CommandResult:
    return runner.run(argv, env=os.environ, should_stop=should_stop)


def python(code: str) -> tuple[str, str, str]:
    return sys.executable, "-c", code


def test_both_outputs_are_passed_on_and_kept(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    ended = ran("sh", "-c", "printf 'a\\377b'; sleep 0.2; echo c >&2; exit 3")
    assert (ended.code, ended.output, ended.was_stopped) == (3, "a\ufffdbc\n", False)
    assert capfdbinary.readouterr() == (b"a\xffb", b"c\n")


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


def test_a_long_output_keeps_its_head_and_its_tail() -> None:
    kept = OutputBuffer()
    for number in range(40_000):
        kept.add(b"%08d\n" % number)
    text = kept.text()
    left_out = 360_000 - HEAD_BYTES - TAIL_BYTES
    assert text.startswith("00000000\n") and text.endswith("00039999\n")
    assert f"\n[… about {left_out} bytes left out]\n" in text
    assert HEAD_BYTES + TAIL_BYTES < len(text) + 20 < 65_536
    # No number is cut in two, as half of a secret would be: it could not be masked.
    numbers = [line for line in text.splitlines() if line.strip("0123456789") == "" and line]
    assert {len(number) for number in numbers} == {8}
    short = OutputBuffer()
    for part in ("grö".encode()[:3], "grö".encode()[3:], b"\n"):
        short.add(part)
    assert short.text() == "grö\n"


def test_it_is_stopped_with_all_that_it_has_started() -> None:
    began = time.monotonic()
    ended = ran("sh", "-c", "echo up; sleep 60 & wait", should_stop=lambda: True)
    assert ended == CommandResult(143, "up\n", was_stopped=True)
    assert time.monotonic() - began < 5


def test_what_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "GRACE_S", 0.3)
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); "
    up = time.monotonic() + 1
    ended = ran(*python(deaf + "time.sleep(60)"), should_stop=lambda: time.monotonic() > up)
    assert ended == CommandResult(137, "up\n", was_stopped=True)


def test_an_interrupt_stops_it_too() -> None:
    began = time.monotonic()

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran("sleep", "60", should_stop=interrupted)
    assert time.monotonic() - began < 5


def test_what_it_leaves_running_does_not_hold_the_end_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LINGER_S", 0.3)
    began = time.monotonic()
    ended = ran("sh", "-c", "echo done; sleep 5 & exit 0")
    assert ended == CommandResult(0, "done\n")
    assert time.monotonic() - began < 3


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
