"""The table of figures in docs/performance.md is updated a suite at a time."""

from bench.__main__ import BEGIN, END, REPORT, format_table, merge_figures
from bench.figures import Figure, at_most


def table(sentence: str, *names: str) -> list[str]:
    figures = [Figure(name, [1.0], target=at_most(2)) for name in names]
    return [f"Measured on {sentence}", "", *format_table(figures)]


def names(lines: list[str]) -> list[str]:
    return [line.split("|")[1].strip() for line in lines if line.startswith("| ")]


def test_a_run_replaces_its_own_figures_and_no_others() -> None:
    first = table("Monday with `python -m bench tasks http`", "one move", "ack over HTTP")
    both = merge_figures(first, table("Tuesday with `python -m bench sessions`", "ingest"))

    assert [name for name in names(both) if "-" not in name] == [
        *("figure", "one move", "ack over HTTP"),
        *("figure", "ingest"),
    ]
    assert [line for line in both if line.startswith("Measured")] == [first[0], both[7]]
    again = merge_figures(both, table("Friday", "ingest", "one move"))
    assert [line for line in again if line.startswith("Measured")] == [
        first[0],
        "Measured on Friday",
    ]
    assert names(again).count("ingest") == names(again).count("one move") == 1
    whole = merge_figures(again, table("Sunday", "one move", "ack over HTTP", "ingest"))
    assert [line for line in whole if line.startswith("Measured")] == ["Measured on Sunday"]


def test_the_stored_table_is_read_as_it_is_written() -> None:
    stored = REPORT.read_text().partition(BEGIN)[2].partition(END)[0].splitlines()
    kept = merge_figures(stored, table("now", "a figure that is new"))
    assert kept[: len(stored)] == stored and names(kept)[-1] == "a figure that is new"
