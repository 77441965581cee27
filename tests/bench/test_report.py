"""The table of figures in docs/performance.md is updated a suite at a time."""

from bench.__main__ import BEGIN, END, REPORT, format_table, merge_figures
from bench.figures import Figure, at_most, ratios


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


def test_tables_of_equal_width_keep_their_rules() -> None:
    both = merge_figures(table("Monday", "figure a"), table("Tuesday", "figure b"))
    assert sum(line.startswith("| ---") for line in both) == 2


def test_the_scatter_of_the_same_code_stands_beside_each_figure() -> None:
    """A ratio is read beside what its baseline did alone; a value beside its own rounds."""
    lines = format_table(
        [
            Figure("ours / floor", ratios([20.0, 30.0, 20.0], [10.0, 20.0, 10.0])),
            Figure("one move", [2.0, 1.0, 4.0], unit="ms"),
            Figure("one run", [0.0], unit="ms"),
        ]
    )
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert cells[0] == ["figure", "median", "min – max", "same code twice", "target", ""]
    assert cells[2][:4] == ["ours / floor", "2.00 ×", "1.50 – 2.00", "0.50 – 2.00 ×"]
    assert cells[3][:4] == ["one move", "2.00 ms", "1.00 – 4.00", "0.50 – 4.00 ×"]
    assert cells[4][:4] == ["one run", "0.00 ms", "", ""]
