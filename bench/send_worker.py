"""Read a count from stdin, send that many instructions twice, and print the medians as JSON."""

import json
import statistics
import sys
import time
import uuid

import django


def main() -> None:
    django.setup()

    from ledger import instructions
    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Agent

    agents = list(Agent.objects.select_related("project").order_by("?")[:100])

    def time_send(content: str, number: int, *, deduplicated: bool) -> float:
        start = time.perf_counter()
        row = instructions.send(agents[number % len(agents)], content, stamp=Stamp(SYSTEM))
        seconds = time.perf_counter() - start
        assert row["deduplicated"] is deduplicated
        return seconds * 1000

    for line in sys.stdin:
        contents = [f"Look at {uuid.uuid4()}" for _ in range(int(line))]
        medians = {
            name: statistics.median(
                time_send(content, number, deduplicated=duplicate)
                for number, content in enumerate(contents)
            )
            for name, duplicate in (("new_ms", False), ("duplicate_ms", True))
        }
        print(json.dumps(medians), flush=True)


if __name__ == "__main__":
    main()
