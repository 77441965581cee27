"""The page about scaling calculates with the costs that were measured last."""

import re

from config.local.places import PROJECT

MEASURED = re.compile(
    r"^\| (?P<operation>[^:|]+): (?P<what>processor time of the web server|processor time of "
    r"PostgreSQL|write-ahead log|growth of the database) +\| (?P<value>[0-9.]+) ",
    re.MULTILINE,
)
# the operation on the page -> its name in the benchmark
OPERATIONS = {
    "enqueue a task": "enqueue a task",
    "claim it and report it done (two requests)": "claim a task and report it done",
    "pull an instruction and acknowledge it (two requests)": "pull an instruction and ack it",
    "store a message of a session": "store a message",
}


def read(name: str) -> str:
    return (PROJECT / "docs" / name).read_text()


def read_costs() -> dict[str, list[float]]:
    """Return the figures of each operation in the last table that has them."""
    costs: dict[str, dict[str, float]] = {}
    for found in MEASURED.finditer(read("performance.md")):
        costs.setdefault(found["operation"], {})[found["what"]] = float(found["value"])
    return {operation: list(figures.values()) for operation, figures in costs.items()}


def test_the_costs_are_those_of_the_benchmark() -> None:
    measured, page = read_costs(), read("scaling.md")
    for operation, name in OPERATIONS.items():
        web, postgres, logged, stored = measured[name]
        row = f"{web:.2f} ms | {postgres:.2f} ms | {logged:.1f} KB | {stored:.1f} KB"
        assert f"| {operation} | {row} |" in page, row


def test_the_rates_follow_from_the_costs() -> None:
    measured, page = read_costs(), read("scaling.md")
    parts = (measured["enqueue a task"], measured["claim a task and report it done"])
    web, postgres = (sum(part[at] for part in parts) for at in (0, 1))
    assert f"**{web:.2f} ms** | **{postgres:.2f} ms**" in page
    for rate in (1_400 / (web + postgres), 1_400 / postgres, 5_600 / (web + postgres)):
        assert f"**{rate:.0f} a second**" in page, rate
    assert f"**{22_400 / postgres:,.0f} a second**" in page
