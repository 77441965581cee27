"""Shorten a program's output to the lines that tell the cause, its start and its end (pure)."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from ledger.secrets.forms import LONGEST_SECRET
from ledger.secrets.redaction import redacted
from retries.failures.outputs.failing_tests import list_marked, read_failing_tests
from retries.failures.outputs.line_context import Line
from retries.failures.outputs.line_scores import score_line
from retries.failures.outputs.long_lines import LONG_LENGTH, break_long_lines
from retries.failures.outputs.salience import MOST_ALIKE, NO_DIGITS, rank_lines
from retries.failures.outputs.salience_rules import HINT, LINE_LENGTH, WEAK
from retries.failures.outputs.text_lines import TextLines

GAP_LENGTH = 40  # no mark of a cut is longer, with its line end
# the lines that are shown around a telling line
AROUND = (3, 8)
# the shares of the room: for the best line, for all telling lines, with what is around them, for
# the start of the text, and for the names of failing tests
FIRST, TELLING, NEAR, START = 0.9, 0.4, 0.65, 0.15
TESTS = 0.35
# Runners list the failing tests at the end: this many characters and lines are searched.
TESTS_WITHIN, MOST_MARKED = 1024 * 1024, 10_000
# A longer line than an eighth of the room is cut, between these two lengths.
SHORT_LINE, LONG_LINE = 400, 4_000
WORDS_DROPPED = 4
# No excerpt of the newest failure tells less than these last characters of its output do.
PASTED_LENGTH = 4_000
# the code that a tool shows right after an error: indented, numbered, quoted, or marked; it is
# matched at the start of lines
MOST_CODE_LINES, MOST_MARKED_LINES = 12, 8
CODE = re.compile(r"\s|[>|│^~+-]|E  |\d{1,7}(?: ?[|│:]|\s{2})")
# a frame of a trace, and the line that begins a function's source; matched at the start of lines,
# they read at most 400 characters
FRAME = re.compile(r"[^\s:]{1,300}:\d{1,7}: in \w|\s{1,8}(?:File \"[^\"\n]{1,300}\", line|at \S)")
FUNCTION = re.compile(r"\s{0,80}(?:async )?(?:def|func|function|fn|sub) \w")
END_OF_SOURCE = re.compile(r"[>E] |_{3,} |(?:_ ){3,}|={3,} ")
MOST_SOURCE_LINES = 150
# what may be a secret where a line without spaces is cut; a run of such characters has one start
UNBROKEN = re.compile(r"(?<![\w+/=.-])[\w+/=.-]{16,}$")
KEY_START = "-----BEGIN "
KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{1,60}-----")
KEY_END = "-----END "
# the pieces of long lines that are kept, since each is redacted with what is around it
MOST_PIECES, ROOM_OF_A_PIECE = 3, 4_000
MASKED_AROUND = 2_000  # characters read around a piece near a secret
SHORTEST_LINE = 120  # the least kept at the start and the end of a line with such a piece
MOST_KEY_LINES = 400
MOST_NAMES = 3
NAME_ENDS = (":", "=", "\\")
# Of the lines from the start and the end of a text, a few are added one by one, and then many short
# ones in one step: as many as the first number, or else as the second.
SINGLE_LINES, SHORT_LINES = 16, (512, 32)


def shorten(
    text: str,
    most: int,
    *,
    edges: tuple[int, int] | None = None,
    around: tuple[int, int] = AROUND,
    ranked: Sequence[Line] | None = None,
    has_pasted: bool = False,
    has_tests: bool = False,
) -> str:
    """Return the text in at most `most` characters, with a mark at each cut.

    The room that the telling lines leave is filled from the start and the end of the text; `edges`
    is the most lines of each, without noise, and shortens a text that would fit, too. `around` is
    the number of lines kept before and after a telling one, and `ranked` the result of
    `rank_lines`, if it is known. With `has_pasted`, every error line among the last PASTED_LENGTH
    characters is kept, with the code right after it; with `has_tests`, a line for each failing
    test.
    """
    # Cuts are between lines and never within a key's block, so that a secret stays whole and can be
    # found. A very long line keeps whole words.
    if len(text) <= most and not edges:
        return text
    selection = Selection(text, most)
    telling = selection.find_telling(ranked)
    if not telling:
        edges = None
        if len(text) <= most:
            return text
    selection.add(telling[:1], share=FIRST)
    if has_pasted:
        selection.add(selection.find_pasted(), share=FIRST)
    if has_tests:
        selection.add(selection.find_tests(), share=TESTS)
    used = selection.size / most if has_pasted or has_tests else 0.0
    selection.add(telling, share=min(TELLING + used, 1.0))
    before, after = around
    for number in telling:
        if number in selection.kept:
            near = [*range(number, number + after + 1), *selection.find_code(number)]
            near += range(number, number - before - 1, -1)
            near += selection.find_function(selection.find_marked(number))
            selection.add(near, share=min(NEAR + used, 1.0))
    count = len(selection.lines)
    first, last = edges or (count, count)
    start = range(min(first, count))
    end = range(count - 1, max(count - last, 0) - 1, -1)
    if edges:
        selection.add(selection.drop_noise(start), share=START + selection.size / most)
        selection.add(selection.drop_noise(end), share=1.0)
    else:
        selection.add_edge(start, share=START + selection.size / most)
        selection.add_edge(end, share=1.0)
    return selection.render()


class Selection:
    """The lines of a text that are kept, within a number of characters."""

    def __init__(self, text: str, most: int) -> None:
        self.lines, self.most = TextLines(text), most
        self.blocks = find_key_blocks(self.lines)
        self.kept: dict[int, str] = {}
        self.size = GAP_LENGTH
        # by long line, where its telling pieces begin and end
        self.pieces: dict[int, list[list[int]]] = {}

    def find_telling(self, ranked: Sequence[Line] | None) -> list[int]:
        """Return the telling lines' numbers, the best first, and store their pieces."""
        text = self.lines.text
        broken = break_long_lines(text)
        pieces = self.lines if broken is text else TextLines(broken)
        if ranked is None:
            ranked = rank_lines(broken, pieces)
        if broken is text:
            return [line.number for line in ranked if line.score >= WEAK]
        found, room = [], min(MOST_PIECES, max(1, self.most // ROOM_OF_A_PIECE))
        for line in ranked:
            if line.score < WEAK:
                break
            number = self.lines.number_at(pieces.start_of(line.number))
            found.append(number)
            if room and self.length_of(number) > LONG_LENGTH:
                room -= 1
                bounds = self.bound_piece(number, line.number, pieces)
                self.pieces.setdefault(number, []).append(bounds)
        return list(dict.fromkeys(found))

    def find_pasted(self) -> Sequence[int]:
        count, cut = len(self.lines), len(self.lines.text) - PASTED_LENGTH
        first = self.lines.number_at(max(cut, 0))
        first += self.lines.start_of(first) < cut
        found: dict[int, None] = {}
        for number in range(first, count):
            if score_line(self.lines[number]) >= WEAK:
                marked = self.find_marked(number)
                found |= dict.fromkeys([*self.find_function(marked), *marked])
                found |= dict.fromkeys([number, *self.find_code(number)])
            elif FRAME.match(self.lines[number]):
                found[number] = None
        # Many marks of a cut take more room than what is left out.
        return range(first, count) if 2 * len(found) > count - first else list(found)

    def find_tests(self) -> Iterator[int]:
        text = self.lines.text
        first = self.lines.number_at(max(len(text) - TESTS_WITHIN, 0))
        marked = list_marked(text[self.lines.start_of(first) :])[-MOST_MARKED:]
        numbers = [first + number for number in marked]
        functions: set[str] = set()
        for number, test in read_failing_tests(self.lines, numbers):
            if test.function not in functions:
                functions.add(test.function)
                yield number

    def find_marked(self, number: int) -> range:
        """Return the numbers of the lines from the code that a runner marks to the error after it.

        >>> Selection("a = 1\\n>   assert f(\\n    a)\\nE   assert 2", 99).find_marked(3)
        range(1, 3)
        """
        for before in range(number - 1, max(number - 1 - MOST_MARKED_LINES, -1), -1):
            line = self.lines[before]
            if line.startswith(">"):
                return range(before, number)
            if not line.startswith((" ", "E")):
                break
        return range(0)

    def find_function(self, marked: range) -> Iterator[int]:
        """Yield the number of the line that begins the function of some code that a runner marks.

        >>> selection = Selection("def f():\\n    a = 1\\n>   g(a)\\nE   no", 99)
        >>> list(selection.find_function(range(2, 3)))
        [0]
        """
        first = marked.start - 1 if marked else -1
        for number in range(first, max(first - MOST_SOURCE_LINES, -1), -1):
            line = self.lines[number]
            if FUNCTION.match(line):
                yield number
            elif not END_OF_SOURCE.match(line):
                continue
            return

    def find_code(self, number: int) -> list[int]:
        """Return the numbers of the lines of code right after an error, with an empty line before.

        >>> Selection("a: error: no\\n\\n  x = 1\\n  ^\\ndone", 99).find_code(0)
        [1, 2, 3]
        """
        found: list[int] = []
        for after in range(number + 1, min(number + 1 + MOST_CODE_LINES, len(self.lines))):
            line = self.lines[after]
            if not line.strip():
                if found:
                    break
            elif not CODE.match(line):
                return found if any(self.lines[each].strip() for each in found) else []
            found.append(after)
        return found

    def drop_noise(self, numbers: Iterable[int]) -> Iterator[int]:
        # Progress and repeated lines tell nothing.
        alike: Counter[str] = Counter()
        for number in numbers:
            start = self.lines[number][:LINE_LENGTH].strip()
            shape = start.translate(NO_DIGITS)
            alike[shape] += 1
            if not start or (alike[shape] <= MOST_ALIKE and score_line(start) > HINT):
                yield number

    def length_of(self, number: int) -> int:
        return self.lines.start_of(number + 1) - 1 - self.lines.start_of(number)

    def bound_piece(self, number: int, piece: int, pieces: TextLines) -> list[int]:
        """Return where a piece begins and ends, with the pieces beside it if there is room."""
        first, last = self.lines.start_of(number), self.lines.start_of(number + 1) - 1
        begins, ends = pieces.start_of(piece), min(pieces.start_of(piece + 1), last)
        next_begins = ends
        ends = min(ends, begins + LINE_LENGTH)
        if self.most < ROOM_OF_A_PIECE:
            return [begins, begins, ends, ends]
        before = max(first, pieces.start_of(piece - 1))
        after = min(pieces.start_of(piece + 2), last)
        return [
            before if begins - before <= LINE_LENGTH else begins,
            begins,
            ends,
            after if ends == next_begins and after - ends <= LINE_LENGTH else ends,
        ]

    def shorten_line(self, number: int) -> str:
        line = self.lines[number]
        if number not in self.pieces:
            return shorten_line(line, self.most)
        start, end = cut_line(line, self.most, least=SHORTEST_LINE)
        if len(start) == len(line):
            return line
        first = self.lines.start_of(number)
        at, last, parts = first + len(start), first + len(line) - len(end), [start]
        for bounds in sorted(self.pieces[number]):
            if bounds[0] >= at and bounds[-1] <= last:
                parts += [left_out(bounds[0] - at), *cut_safely(self.lines.text, bounds)]
                at = bounds[-1]
        return "\n".join([*parts, left_out(last - at), end]).strip()

    def add(self, numbers: Iterable[int], *, share: float) -> bool:
        """Keep these lines in order; return False once their share of the room is used."""
        for number in numbers:
            if number in self.kept or not 0 <= number < len(self.lines):
                continue
            block = self.find_block(number) or range(self.find_start(number), number + 1)
            lines = {each: self.shorten_line(each) for each in block if each not in self.kept}
            cost = sum(len(line) + 1 for line in lines.values())
            if block[0] - 1 not in self.kept and block[-1] + 1 not in self.kept:
                cost += GAP_LENGTH
            if self.size + cost > self.most * share:
                return False
            self.kept |= lines
            self.size += cost
        return True

    def add_edge(self, numbers: range, *, share: float) -> None:
        """Add the lines from the start or the end of the text, as `add` does."""
        at = 0
        while at < len(numbers) and self.add(numbers[at : at + SINGLE_LINES], share=share):
            at += SINGLE_LINES
            while at < len(numbers) and numbers[at] in self.kept:
                at += 1
            for most in SHORT_LINES:
                if added := self.add_short(numbers[at : at + most], share=share):
                    at += added
                    break

    def add_short(self, numbers: range, *, share: float) -> int:
        """Add these lines in one step if none is special; return how many were added.

        The lines beside them that were added before reach to the edge of the text.
        """
        if not numbers or not self.kept.keys().isdisjoint(numbers):
            return 0
        first, last = sorted((numbers[0], numbers[-1]))
        begins, ends = self.lines.start_of(first), self.lines.start_of(last + 1)
        above = bisect_right(self.blocks, last, key=lambda block: block[0]) - 1
        if self.size + ends - begins > self.most * share or (
            above >= 0 and self.blocks[above][-1] >= first
        ):
            return 0
        lines = self.lines.text[begins : ends - 1].split("\n")
        if max(map(len, lines)) > SHORT_LINE:
            return 0
        start = self.find_start(first)
        if not all(number in self.kept for number in range(start, first)):
            # From the end, `add` adds a line together with those that it continues.
            whole = next((n for n, line in enumerate(lines) if not line.endswith(NAME_ENDS)), -1)
            left = ((whole if whole >= 0 else len(lines) - 1) + 1) % (MOST_NAMES + 1)
            first, lines = first + left, lines[left:]
        self.kept.update(zip(range(first, last + 1), lines, strict=True))
        self.size += sum(map(len, lines)) + len(lines)
        return len(lines)

    def find_block(self, number: int) -> range | None:
        at = bisect_right(self.blocks, number, key=lambda block: block[0]) - 1
        return self.blocks[at] if at >= 0 and number in self.blocks[at] else None

    def find_start(self, number: int) -> int:
        # The line that this one continues may name it as a secret.
        start, text = number, self.lines.text
        while start > max(0, number - MOST_NAMES):
            end = self.lines.start_of(start) - 1
            if not text.endswith(NAME_ENDS, max(0, end - 1), end):
                break
            start -= 1
        return start

    def render(self) -> str:
        parts, last = [], -1
        for number in [*sorted(self.kept), len(self.lines)]:
            if left := number - last - 1:
                parts.append(f"[… {left:,} line{'s' * (left > 1)} left out …]")
            if number < len(self.lines):
                parts.append(self.kept[number])
            last = number
        return "\n".join(parts)


def find_key_blocks(lines: TextLines) -> list[range]:
    text, blocks = lines.text, []
    at, counted, number, end_number = text.find(KEY_START), 0, 0, -1
    while at >= 0:
        last = number = number + text.count("\n", counted, at)
        line_end = text.find("\n", at)
        if KEY.search(text, at, line_end if line_end >= 0 else len(text)):
            if end_number < number:
                end = text.find(KEY_END, text.rfind("\n", 0, at) + 1)
                end_number = number + text.count("\n", at, end) if end >= 0 else len(lines)
            last = min(end_number, number + MOST_KEY_LINES - 1, len(lines) - 1)
            blocks.append(range(number, last + 1))
        counted, number = lines.start_of(last + 1), last + 1
        at = text.find(KEY_START, counted)
    return blocks


def shorten_line(line: str, most: int) -> str:
    # A long line must leave room for others.
    start, end = cut_line(line, most)
    left = len(line) - len(start) - len(end)
    return f"{start} {left_out(left)} {end}".strip() if left else line


def cut_line(line: str, most: int, *, least: int = SHORT_LINE) -> tuple[str, str]:
    """Return the start and the end of a line that is too long, or else the line and nothing."""
    # At each cut a few words go, too: they may be a secret without the name that identifies it.
    limit = min(LONG_LINE, max(most // 8, least))
    if len(line) <= limit:
        return line, ""
    first = limit * 2 // 3
    start = " ".join(line[:first].split(" ")[:-1]) or UNBROKEN.sub("", line[:first])
    return start, " ".join(line[first - limit :].split(" ")[WORDS_DROPPED:])


def left_out(count: int) -> str:
    return f"[… {count:,} characters left out …]"


def cut_safely(text: str, bounds: list[int]) -> list[str]:
    """Return the parts of a text between these positions, without secrets that reach into them."""
    # Each part is redacted with as much around it as the longest secret has: half a secret, or one
    # without its name, would not be recognized.
    whole = text[max(0, bounds[0] - LONGEST_SECRET) : bounds[-1] + LONGEST_SECRET]
    if redacted(whole) == whole:
        return [part for a, b in pairwise(bounds) if (part := text[a:b].strip())]
    begins, ends = max(0, bounds[0] - MASKED_AROUND), bounds[-1] + MASKED_AROUND
    before = text[max(0, begins - LONGEST_SECRET) : begins]
    after = text[ends : ends + LONGEST_SECRET]
    masked = redacted(before + text[begins:ends] + after)
    # what stands at the ends may be half a secret, and goes
    safe = masked[len(redacted(before)) : len(masked) - len(redacted(after))]
    piece = text[bounds[1] : bounds[2]]
    at = safe.find(piece)
    return [(safe[at : at + len(piece)] if at >= 0 else safe).strip()]
