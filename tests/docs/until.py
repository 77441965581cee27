"""Runs the shell command of stdin until its output contains a text, then presses Ctrl-C.

`python until.py TEXT < COMMAND` exits with 1 if the command ends before, or does not end after.
"""

import os
import signal
import subprocess
import sys
import threading

PATIENCE_S = 180


def main(expected: str) -> int:
    process = subprocess.Popen(
        ["bash", "-c", sys.stdin.read()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    # Ends the loop below if the text never comes.
    timer = threading.Timer(PATIENCE_S, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    seen = False
    for line in process.stdout:
        print(line, end="", flush=True)
        if expected in line and not seen:
            seen = True
            os.killpg(process.pid, signal.SIGINT)
    process.wait()
    timer.cancel()
    if not seen:
        print(f"The output did not contain {expected!r}.", file=sys.stderr)
    return 0 if seen else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
