"""`make up`: checks the preconditions, then runs the supervisor.

`python -m config.local.up` needs only the standard library and the wheels of the two servers.
"""

import signal

if __name__ == "__main__":
    # Until the supervisor handles it, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import IO

from config import environment
from config.local import embedded, listeners, places
from config.local.commands import die_with
from config.local.places import PROJECT, RESTORING, Refused, url_of, write_private
from config.local.processes import GRACE
from config.local.supervisor import has_external_servers, supervise


def open_listener() -> socket.socket:
    host, port = environment.read_text("HOST"), chosen_port()
    try:
        return listeners.open_listener(host, port)
    except OSError as error:
        other = embedded.free_port() if port else 0
        raise Refused(
            f"Port {port} on {host} can't be used: {error.strerror}. "
            f"Choose another: TENFOUR_PORT={other} make up"
        ) from None


def chosen_port() -> int:
    raw = environment.read_text("PORT")
    if not raw.isdecimal() or int(raw) > 65535:
        raise Refused(f"TENFOUR_PORT must be a whole number from 0 to 65535, not {raw!r}.")
    return int(raw)


def take(data: Path) -> IO[str] | None:
    """Take the lock of the data folder; None, with a message, if Tenfour already runs here."""
    for _ in range(10 * GRACE):
        if (held := places.lock(data)) is not None:
            return held
        if (where := places.running_address(data)) is not None:
            print(f"Tenfour already runs here: {where}")
            return None
        time.sleep(0.1)  # its supervisor is gone, and its other processes are about to end
    raise Refused(places.describe_holders(data / "lock"))


def up(data: Path) -> int:
    has_external_servers()
    if (data / RESTORING).exists():
        raise Refused(
            f"{data} is not a whole instance: a restore into it was interrupted. "
            f"Restore it again: TENFOUR_DATA={data} .venv/bin/python manage.py restore FILE"
        )
    place = places.place_of(data)
    held = take(data)
    if held is None:
        return 0
    with held, open_listener() as listener, places.programs_in_use() as marker:
        state = {"pid": os.getpid(), "url": url_of(listener)}
        write_private(data / "running.json", json.dumps(state) + "\n")
        return supervise(place, listener, (held.fileno(), marker))


def main(argv: list[str]) -> int:
    data = Path(environment.read_text("DATA") or PROJECT / ".tenfour").resolve()
    if "--with-parent" in argv:  # killing make stops this process, too
        die_with(os.getppid(), signal.SIGTERM)
    try:
        if "--clean" in argv:
            places.refuse_used_programs()
        if "--clean" in argv or "--remove" in argv:
            places.remove(data)
            return 0
        for warning in environment.unknown_variables(os.environ):
            print(f"Warning: {warning}", file=sys.stderr)
        return up(data)
    except Refused as error:
        print(error, file=sys.stderr)
    except OSError as error:
        print(f"Tenfour can't start: {error.filename}: {error.strerror}.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
