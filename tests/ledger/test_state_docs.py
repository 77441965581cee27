"""docs/reliability.md draws the moves that ledger/states.py allows."""

from django.conf import settings

from ledger.states import FINAL, TASK_MOVES


def test_the_diagram_is_the_table() -> None:
    text = (settings.BASE_DIR / "docs" / "reliability.md").read_text()
    drawn = text.partition("stateDiagram-v2\n")[2].partition("```")[0]
    lines = ["[*] --> queued"]
    for start, targets in TASK_MOVES.items():
        lines += [f"{start} --> {to}: {', '.join(who)}" for to, who in targets.items()]
    lines += [f"{state} --> [*]" for state in FINAL]
    assert [line.strip() for line in drawn.strip().splitlines()] == lines
