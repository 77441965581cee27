"""The command line of the project ends with sentences, not with tracebacks."""

import os
import socket
import struct
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

from config.local.embedded import free_port
from config.local.places import PROJECT

KEY = "0123456789" * 4


def manage(*words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "manage.py", *words]
    return subprocess.run(
        argv, cwd=PROJECT, env={"PATH": os.environ["PATH"]} | env, capture_output=True, text=True
    )


def given(port: int, data: Path) -> dict[str, str]:
    return {
        "TENFOUR_DATA": str(data),
        "TENFOUR_SECRET_KEY": KEY,
        "DATABASE_URL": f"postgres://tenfour:x@127.0.0.1:{port}/tenfour",
        "REDIS_URL": os.environ["REDIS_URL"],
    }


def test_without_data_the_missing_setting_is_named(tmp_path: Path) -> None:
    done = manage("token", "--kind", "agent", "--agent", "coder", TENFOUR_DATA=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("TENFOUR_SECRET_KEY is not set.")
    assert len(done.stderr.splitlines()) == 1


def test_an_unreadable_secret_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    done = manage("check", TENFOUR_DATA=str(tmp_path), TENFOUR_SECRET_KEY_FILE=missing)
    assert done.stderr == (
        f"TENFOUR_SECRET_KEY_FILE={missing} can't be read: No such file or directory.\n"
    )


def test_a_missing_database_is_a_sentence(tmp_path: Path) -> None:
    done = manage("migrate", "--skip-checks", **given(free_port(), tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("The database can't be used: ")
    assert "Traceback" not in done.stderr


def test_an_old_postgres_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        speaking = threading.Thread(target=speak_as_postgres_15, args=(door,), daemon=True)
        speaking.start()
        done = manage("migrate", "--skip-checks", **given(door.getsockname()[1], tmp_path))
        door.shutdown(socket.SHUT_RDWR)  # ends its accept
        speaking.join()
    assert done.returncode == 1
    assert done.stderr == (
        "The database can't be used: PostgreSQL 18 or later is required (found 15.0).\n"
    )


def speak_as_postgres_15(door: socket.socket) -> None:
    """Accept clients without a password, as a server that reports version 15."""

    def message(kind: bytes, body: bytes) -> bytes:
        return kind + struct.pack("!I", len(body) + 4) + body

    parameters = {"server_version": "15.0", "client_encoding": "UTF8", "TimeZone": "UTC"}
    hello = message(b"R", struct.pack("!I", 0))
    for name, value in parameters.items():
        hello += message(b"S", f"{name}\0{value}\0".encode())
    hello += message(b"K", struct.pack("!II", 1, 1)) + message(b"Z", b"I")
    with ExitStack() as clients, suppress(OSError):
        while True:
            client = clients.enter_context(door.accept()[0])
            request = client.recv(1024)
            if request[4:8] == struct.pack("!I", 80877103):  # asks for TLS
                client.sendall(b"N")
                client.recv(1024)
            client.sendall(hello)


def test_a_closed_pipe_ends_a_command_quietly() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "manage.py", "help"], cwd=PROJECT, stdout=write, stderr=subprocess.PIPE
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
