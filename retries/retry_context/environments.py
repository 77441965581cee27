"""Compare the environments that two attempts ran in (pure)."""

from collections.abc import Mapping

from retries.retry_context.elements import one_line

MOST_FACTS, NAME_LENGTH, FACT_LENGTH = 10, 40, 120
MISSING = "none"


def compare_environments(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the facts that are other ones now; none where either side has none.

    >>> compare_environments({"branch": "main", "node": "v22"}, {"branch": "fix", "node": "v22"})
    ['branch: main → fix']
    """
    if not before or not now:
        return []
    return [
        f"{one_line(name, NAME_LENGTH)}: {fact_of(before, name)} → {fact_of(now, name)}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ][:MOST_FACTS]


def fact_of(environment: Mapping[str, str], name: str) -> str:
    return one_line(str(environment.get(name) or MISSING), FACT_LENGTH)
