"""Shorten a program's output to the lines that tell the cause, its start and its end (pure)."""

import re
from bisect import bisect_right
from collections.abc import Iterable

from retries.failures.salience import rank_lines
from retries.failures.salience_rules import WEAK
from retries.failures.text_lines import TextLines

GAP_LENGTH = 40  # no mark of a cut is longer, with its line end
# the lines that are shown around a telling line
AROUND = (3, 8)
# the shares of the room: for the best line, for all telling lines, with what is around them, and
# for the start of the text
FIRST, TELLING, NEAR, START = 0.9, 0.4, 0.65, 0.15
# A longer line than an eighth of the room is cut, between these two lengths.
SHORT_LINE, LONG_LINE = 400, 4_000
WORDS_DROPPED = 4
# what may be a secret where a line without spaces is cut
UNBROKEN = re.compile(r"[\w+/=.-]{16,}$")
KEY_START = "-----BEGIN "
KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{1,60}-----")
KEY_END = "-----END "
MOST_KEY_LINES = 400
MOST_NAMES = 3


def shorten(
    text: str,
    most: int,
    *,
    edges: tuple[int, int] | None = None,
    around: tuple[int, int] = AROUND,
) -> str:
    """Return the text in at most `most` characters, with a mark at each cut.

    What the telling lines leave is filled from the start and the end of the text; `edges` says how
    many lines of each there are at most, and shortens a text that would fit, too; `around` is how
    many lines before and after a telling one are kept. It cuts between lines and never within a
    key's block, so that a secret stays whole and can be found; of a very long line it keeps whole
    words.
    """
    if len(text) <= most and not edges:
        return text
    selection = Selection(text, most)
    telling = [line.number for line in rank_lines(text, selection.lines) if line.score >= WEAK]
    if not telling:
        edges = None
        if len(text) <= most:
            return text
    selection.add(telling[:1], share=FIRST)
    selection.add(telling, share=TELLING)
    for number in telling:
        if number in selection.kept:
            before, after = around
            near = [*range(number, number + after + 1), *range(number, number - before - 1, -1)]
            selection.add(near, share=NEAR)
    count = len(selection.lines)
    first, last = edges or (count, count)
    selection.add(range(min(first, count)), share=START + selection.size / most)
    selection.add(range(count - 1, max(count - last, 0) - 1, -1), share=1.0)
    return selection.render()


class Selection:
    """The lines of a text that are kept, within a number of characters."""

    def __init__(self, text: str, most: int) -> None:
        self.lines, self.most = TextLines(text), most
        self.blocks = find_key_blocks(self.lines)
        self.kept: dict[int, str] = {}
        self.size = GAP_LENGTH

    def add(self, numbers: Iterable[int], *, share: float) -> bool:
        """Keep these lines in order; return False where their share of the room is used."""
        for number in numbers:
            if number in self.kept or not 0 <= number < len(self.lines):
                continue
            block = self.find_block(number) or range(self.find_start(number), number + 1)
            lines = {
                each: shorten_line(self.lines[each], self.most)
                for each in block
                if each not in self.kept
            }
            cost = sum(len(line) + 1 for line in lines.values())
            if block[0] - 1 not in self.kept and block[-1] + 1 not in self.kept:
                cost += GAP_LENGTH
            if self.size + cost > self.most * share:
                return False
            self.kept |= lines
            self.size += cost
        return True

    def find_block(self, number: int) -> range | None:
        """Return the lines of the key that a line is part of, if it is part of one."""
        at = bisect_right(self.blocks, number, key=lambda block: block[0]) - 1
        return self.blocks[at] if at >= 0 and number in self.blocks[at] else None

    def find_start(self, number: int) -> int:
        """Return the number of the line that a line continues, which may name it as a secret."""
        start, text = number, self.lines.text
        while start > max(0, number - MOST_NAMES):
            end = self.lines.start_of(start) - 1
            if not text.endswith((":", "=", "\\"), max(0, end - 1), end):
                break
            start -= 1
        return start

    def render(self) -> str:
        """Return the kept lines, with how many are left out at each cut."""
        parts, last = [], -1
        for number in [*sorted(self.kept), len(self.lines)]:
            if left := number - last - 1:
                parts.append(f"[… {left:,} line{'s' * (left > 1)} left out …]")
            if number < len(self.lines):
                parts.append(self.kept[number])
            last = number
        return "\n".join(parts)


def find_key_blocks(lines: TextLines) -> list[range]:
    """Return the lines of each key that has several, in order."""
    text, blocks = lines.text, []
    at = text.find(KEY_START)
    while at >= 0:
        last = number = lines.number_at(at)
        if KEY.search(lines[number]):
            last = min(number + MOST_KEY_LINES, len(lines)) - 1
            end = text.find(KEY_END, lines.start_of(number), lines.start_of(last + 1))
            last = lines.number_at(end) if end >= 0 else last
            blocks.append(range(number, last + 1))
        at = text.find(KEY_START, lines.start_of(last + 1))
    return blocks


def shorten_line(line: str, most: int) -> str:
    """Return a line that leaves room for others: if it is too long, its start and its end.

    At each cut a few words go, too: they may be a secret without the name that gives it away.
    """
    limit = min(LONG_LINE, max(most // 8, SHORT_LINE))
    if len(line) <= limit:
        return line
    first = limit * 2 // 3
    start = " ".join(line[:first].split(" ")[:-1]) or UNBROKEN.sub("", line[:first])
    end = " ".join(line[first - limit :].split(" ")[WORDS_DROPPED:])
    return f"{start} [… {len(line) - len(start) - len(end):,} characters left out …] {end}".strip()
