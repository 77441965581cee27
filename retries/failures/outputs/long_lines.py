"""Break very long lines into pieces that can be scored (pure).

A tool that prints JSON, minified code or a progress log may put everything on one line.
"""

from retries.failures.outputs.salience_rules import LINE_LENGTH
from retries.failures.outputs.text_lines import choose_possible

# A longer line is read in pieces.
LONG_LENGTH = 2_000
# Each has a replacement of the same length, so that a position is the same in both texts.
SEPARATORS = (
    ("\r", "\n"),
    ("\\r\\n", "   \n"),
    ("\\n", " \n"),
    # without the colon, with which a line announces the next one
    ('": "', '"  \n'),
    ('":"', '" \n'),
    ('",', '"\n'),
    ("},", "}\n"),
    ("; ", ";\n"),
    (". ", ".\n"),
)
# What often begins a message, though no separator stands before it; it may follow a place.
STARTS = (
    *("error:", "error[", "Error:", "Exception:", "ERROR", "FAILED", "FAIL:", "fatal:", "panic:"),
    *("Fatal", "FATAL", "Traceback ", "Caused by:"),
)
MOST_STARTS = 400  # of each, from the start of the text and from its end
PLACE_LENGTH = 300
MARKS = (" ", ";", ",", "}")


def break_long_lines(text: str) -> str:
    """Return a text of the same length in which a newline ends each piece of a long line.

    >>> break_long_lines("short; line")
    'short; line'
    >>> break_long_lines("one; two. " * 300).split("\\n")[:2]
    ['one;', 'two.']
    """
    parts, last, at = [], 0, 0
    while at + LONG_LENGTH < len(text):
        newline = text.rfind("\n", at, at + LONG_LENGTH)
        if newline >= 0:
            at = newline + 1
            continue
        end = text.find("\n", at + LONG_LENGTH)
        end = end if end >= 0 else len(text)
        parts += [text[last:at], break_line(text[at:end])]
        last = at = end
    return "".join([*parts, text[last:]]) if parts else text


def break_line(line: str) -> str:
    """Return a long line with a newline at each separator, and in each part still too long."""
    for separator, replacement in SEPARATORS:
        line = line.replace(separator, replacement)
    cuts = sorted(find_starts(line))
    pieces, last = [], 0
    for cut in [*cuts, len(line)]:
        pieces.append(cut_pieces(line[last:cut]))
        last = cut + 1
    return "\n".join(pieces)


def find_starts(line: str) -> set[int]:
    found: set[int] = set()
    for start in choose_possible(STARTS, line):
        at, tries = line.find(start), 0
        while at >= 0 and tries < MOST_STARTS:
            found.add(find_space(line, at))
            at, tries = line.find(start, at + 1), tries + 1
        if at >= 0:
            at, tries = line.rfind(start), 0
            while at >= 0 and tries < MOST_STARTS:
                found.add(find_space(line, at))
                at, tries = line.rfind(start, 0, at), tries + 1
    return found - {-1}


def find_space(line: str, at: int) -> int:
    """Return the position of the space before a word, or before the place that it follows."""
    first = max(0, at - PLACE_LENGTH)
    space = line.rfind(" ", first, at)
    if space > first and line[space - 1] == ":":
        before = line.rfind(" ", first, space)
        return before if before >= 0 else space
    return space


def cut_pieces(line: str) -> str:
    parts, at = [], 0
    while at + LINE_LENGTH < len(line):
        cut = line.rfind("\n", at, at + LINE_LENGTH)
        if cut < 0:
            cut = find_cut(line, at)
        parts.append(line[at:cut])
        at = cut + 1
    return "\n".join([*parts, line[at:]])


def find_cut(line: str, at: int) -> int:
    # A piece ends at a space or a mark in its second half.
    middle, end = at + LINE_LENGTH // 2, at + LINE_LENGTH
    for mark in MARKS:
        cut = line.rfind(mark, middle, end)
        if cut >= 0:
            return cut
    return end
