"""nginx in front of web servers, with the configuration in `deploy/nginx`."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from config.local.embedded import free_port
from tests.programs import require_program
from tests.serving import ROOT
from tests.waiting import PATIENCE_S, wait_until

FOLDER = ROOT / "deploy" / "nginx"
ONE_PROCESS = "master_process off;"
# Only with a master process does a reload end the connections that the former settings serve.
RELOADABLE = "user root;" if os.geteuid() == 0 else ""


@contextmanager
def run_nginx(folder: Path, *ports: int, option: str = "") -> Iterator[int]:
    """Run nginx in front of web servers at ports; yield its own, and end it with the block."""
    text = (FOLDER / "tenfour.conf").read_text()
    [line] = [each for each in text.splitlines() if each.strip().startswith("server web:8000")]
    servers = [line.replace("web:8000", f"127.0.0.1:{each}") for each in ports]
    with run_configured_nginx(folder, text.replace(line, "\n".join(servers)), option) as port:
        yield port


@contextmanager
def run_configured_nginx(
    folder: Path, text: str, option: str = "", processes: str = ONE_PROCESS
) -> Iterator[int]:
    """Run nginx with a configuration, on a port of its own, which is yielded."""
    port, log = free_port(), folder / "log"
    text = text.replace("listen 8000;", f"listen {port};\n{option}")
    argv = prepare_nginx(folder, text, processes)
    nginx = subprocess.Popen(argv)
    try:

        def is_up() -> bool:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return True
            return False

        wait_until(is_up, log.read_text)
        yield port
    finally:
        nginx.terminate()
        nginx.wait(PATIENCE_S)


def prepare_nginx(folder: Path, text: str, processes: str = ONE_PROCESS) -> list[str]:
    """Write a configuration to a folder; return the command that runs nginx with it."""
    (folder / "tenfour.conf").write_text(text)
    (folder / "nginx.conf").write_text(
        f'daemon off; {processes} pid "{folder}/pid"; error_log "{folder}/log";\n'
        f'events {{}} http {{ access_log off; include "{folder}/tenfour.conf"; }}\n'
    )
    places = ["-e", f"{folder}/log", "-p", f"{folder}", "-c", f"{folder}/nginx.conf"]
    return [require_program("nginx"), *places]
