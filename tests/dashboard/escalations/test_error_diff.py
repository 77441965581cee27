"""The difference between the errors of two attempts."""

from dashboard.escalations.error_diff import diff

BEFORE = "FAILED test_totals\n41 of 9318 invoices differ\nINV-1\nINV-2"
AFTER = "FAILED test_totals\n3 of 9318 invoices differ\nINV-2"


def test_diff_of_two_errors() -> None:
    found = diff(BEFORE, AFTER)
    assert [(line.sign, line.text) for line in found.lines] == [
        (" ", "FAILED test_totals"),
        ("−", "41 of 9318 invoices differ"),
        ("−", "INV-1"),
        ("+", "3 of 9318 invoices differ"),
        (" ", "INV-2"),
    ]
    assert (found.removed, found.added, found.summary) == (2, 1, "2 lines removed, 1 added")
    assert diff("a\nb", "a\nb").summary == "the same error"


def test_long_unchanged_stretches_are_omitted() -> None:
    long = "\n".join(str(n) for n in range(100))
    shown = diff(long + "\nx", long + "\ny").lines
    assert [line.text for line in shown] == ["97 unchanged lines", "97", "98", "99", "x", "y"]


def test_lines_and_their_number_are_limited() -> None:
    hostile = diff("<script>\n" * 5000, "x" * 100_000).lines
    assert len(hostile) <= 401 and max(len(line.text) for line in hostile) <= 300
