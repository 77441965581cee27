"""Run the clock's entry that stdin names, with runs of so many seconds; print its counts."""

import json
import sys

import django
from django.db import connection


def main(seconds: float) -> None:
    django.setup()

    from retries import sweeps
    from retries.retention import event_months, running

    running.SLICE_SECONDS = event_months.SLICE_SECONDS = seconds
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        print(cursor.fetchone()[0], flush=True)
    for line in sys.stdin:
        print(json.dumps(sweeps.run(line.strip())), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
