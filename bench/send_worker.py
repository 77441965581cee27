"""Sends when told to: reads a number from stdin, sends so many twice, answers with medians."""

import json
import statistics
import sys
import time
import uuid

import django

from ledger.journal import SYSTEM, Stamp


def main() -> None:
    django.setup()

    from ledger import instructions
    from ledger.models import Agent

    agents = list(Agent.objects.select_related("project").order_by("?")[:100])

    def timed(content: str, number: int, *, deduplicated: bool) -> float:
        start = time.perf_counter()
        row = instructions.send(agents[number % len(agents)], content, stamp=Stamp(SYSTEM))
        took = time.perf_counter() - start
        assert row["deduplicated"] is deduplicated
        return took * 1000

    for line in sys.stdin:
        contents = [f"Look at {uuid.uuid4()}" for _ in range(int(line))]
        took = {
            name: statistics.median(
                timed(content, number, deduplicated=again)
                for number, content in enumerate(contents)
            )
            for name, again in (("fresh_ms", False), ("again_ms", True))
        }
        print(json.dumps(took), flush=True)


if __name__ == "__main__":
    main()
