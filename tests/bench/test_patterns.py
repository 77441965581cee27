"""The benchmark of patterns reads any set of lines."""

from pathlib import Path

from bench.patterns import measure_grouping, measure_without_own_rules, read_sets

LONGEST = 200_000


def test_lines_of_any_length_and_any_bytes_are_grouped(tmp_path: Path) -> None:
    """RTY-9"""
    words = [" ".join(["word"] * count) for count in (61, 80, 1)]
    lines = [*words, "x" * LONGEST, "", "a \ufffd b"]
    rows = [f"{line},template {number}\n".encode() for number, line in enumerate(lines)]
    rows[-1] = b"a \xff b,template 5\n"
    (tmp_path / "Any.csv").write_bytes(b"Content,EventTemplate\n" + b"".join(rows) + b"short\n")
    sets = read_sets(tmp_path)
    assert [content for content, _ in sets["Any"]] == [*lines, "short"]
    found = measure_grouping(sets["Any"])
    assert (found.lines, found.ga) == (7, 1.0)
    assert measure_without_own_rules(sets)["Any"].lines == 7
