"""Import a plan per line of stdin, with the rules of the revision in this folder; print its ms."""

import json
import sys
import time

import django


def main() -> None:
    django.setup()
    from django.utils import timezone

    from ledger import planfile
    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Project
    from ledger.plans.import_diff import ImportOptions
    from retries.plans import importing

    project = Project.objects.get(name="default")
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        start = time.perf_counter()
        parsed = planfile.parse(
            asked["text"].encode(), media="text/markdown", agent="coder", ref=asked["ref"]
        )
        importing.import_plan(
            project,
            parsed.plan,
            options=ImportOptions(mode=asked["mode"], register=True, warnings=parsed.warnings),
            stamp=Stamp(SYSTEM, timezone.now()),
        )
        print(json.dumps((time.perf_counter() - start) * 1000), flush=True)


if __name__ == "__main__":
    main()
