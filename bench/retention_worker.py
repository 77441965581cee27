"""Run retention when stdin says "go", until it says "stop"; print how many rows are gone."""

import sys
import threading

import django
from django.utils import timezone


def main() -> None:
    django.setup()

    from retries.retention import running

    running.SLICE_SECONDS = 1.0
    print("ready", flush=True)
    while sys.stdin.readline() == "go\n":
        stopping = threading.Event()
        reader = threading.Thread(target=lambda done=stopping: (sys.stdin.readline(), done.set()))
        reader.start()
        gone = 0
        while not stopping.is_set():
            did = running.delete_old(now=timezone.now())
            gone += sum(value for value in did.values() if isinstance(value, int))
        reader.join()
        print(gone, flush=True)


if __name__ == "__main__":
    main()
