"""Find every command that a shell line may run, for deny rules and marks (pure).

This reader never fails: it follows quotes, reads substitutions, groups, and the programs that start
others, and rather finds a command too many. What may be allowed is decided by `command_lines`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tree_sitter import Node

from retries.permissions.runners import RUNNERS, find_program
from retries.permissions.shell_grammar import LINE_LENGTH, is_too_long, parse, word_set

DEEPEST = 6
# The program that a launcher starts is searched among this many of its words.
MOST_STARTS = 40
MOST_SEGMENTS = 2_000

ENDING = frozenset(";&|\n(){}")
# These begin a command in front of a program.
PREFIXES = word_set("! then do else elif if while until time coproc { }")
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish"})
# Programs that start others, beside the runners.
STARTING = word_set(
    "find fd npx bunx npm pnpm yarn bun docker podman kubectl poetry uv pipenv bundle"
    " python node perl ruby conda nice"
)
GIT_STARTING = frozenset({"rebase", "bisect", "submodule", "filter-branch", "difftool"})


@dataclass(frozen=True, slots=True)
class FoundWord:
    """A word without its quotes, and where the line writes it."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FoundCommand:
    words: tuple[FoundWord, ...]
    # The files that its output goes to or its input comes from.
    files: tuple[FoundWord, ...] = ()
    is_fed: bool = False

    @property
    def program(self) -> str:
        return find_program(self.words[0].text)


def find_commands(line: str, *, depth: int = DEEPEST) -> list[FoundCommand]:
    """Return the commands of a line with those in substitutions, scripts, and behind launchers.

    >>> line = "ls; echo $(whoami) | sh -c 'make all'"
    >>> [" ".join(word.text for word in each.words) for each in find_commands(line)]
    ['ls', 'echo $(whoami)', 'sh -c make all', 'make all', 'make all', 'whoami']
    """
    found: list[FoundCommand] = []
    line = line[:LINE_LENGTH]
    queue = [(blank_texts(line), 0, depth)]
    for text, offset, level in queue:
        reader = LooseReader(text, offset)
        reader.read()
        for command in reader.commands:
            found.append(command)
            if level and is_starting(command):
                found += list_launched(command)
                queue += [(each.text, each.start, level - 1) for each in list_scripts(command)]
        if level and len(queue) < MOST_SEGMENTS:
            queue += [(each, start, level - 1) for each, start in reader.substitutions]
    return found


def is_starting(command: FoundCommand) -> bool:
    program = command.program
    is_git = program == "git" and any(word.text in GIT_STARTING for word in command.words[1:4])
    return is_git or program in RUNNERS or program in STARTING


def list_launched(command: FoundCommand) -> Iterator[FoundCommand]:
    for at in range(1, min(len(command.words), MOST_STARTS)):
        if command.words[at].text[:1] not in ("-", ""):
            yield FoundCommand(command.words[at:], command.files, command.is_fed)


def list_scripts(command: FoundCommand) -> Iterator[FoundWord]:
    for word in command.words[1:]:
        if any(each in word.text for each in " ;|&\n"):
            # Behind the opening quote; where escapes were removed, the place is not exact.
            yield FoundWord(word.text, word.start + 1, word.end)
    if command.program == "eval" and len(command.words) > 2:
        words = command.words[1:]
        yield FoundWord(" ".join(word.text for word in words), words[0].start, words[-1].end)


def blank_texts(line: str) -> str:
    """Return a line with here-documents' texts blanked, unless a shell may read them."""
    if "<<" not in line or is_too_long(line) or any(shell in line for shell in SHELLS):
        return line
    source = line.encode(errors="replace")
    blanked = bytearray(source)
    for node in list_bodies(parse(source)):
        substitutions = [each for each in node.named_children if "substitution" in each.type]
        at = node.start_byte
        for each in [*substitutions, None]:
            end = each.start_byte if each else node.end_byte
            blanked[at:end] = bytes(10 if byte == 10 else 35 for byte in source[at:end])
            at = each.end_byte if each else end
    text = blanked.decode(errors="replace")
    return text if len(text) == len(line) else line


def list_bodies(root: Node) -> Iterator[Node]:
    stack = [] if root.has_error else [root]
    while stack:
        node = stack.pop()
        if node.type == "heredoc_body":
            yield node
        stack.extend(node.children)


@dataclass(slots=True)
class LooseReader:
    """Splits a text into commands; `offset` is where the text stands in the line."""

    text: str
    offset: int
    commands: list[FoundCommand] = field(default_factory=list)
    # The texts inside of `$(…)`, `<(…)` and backticks, with their places in the line.
    substitutions: list[tuple[str, int]] = field(default_factory=list)
    at: int = 0
    words: list[FoundWord] = field(default_factory=list)
    files: list[FoundWord] = field(default_factory=list)
    is_file: bool = False
    is_fed: bool = False

    def read(self) -> None:
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in " \t\r":
                self.at += 1
            elif character == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif character in "<>" and self.text[self.at + 1 : self.at + 2] != "(":
                self.skip_redirection()
            elif self.text.startswith("&>", self.at):
                self.at += 1
            elif character in ENDING and not self.begins_word():
                self.end_command(is_pipe=character == "|")
                self.at += 1
            else:
                self.read_word()
        self.end_command(is_pipe=False)

    def begins_word(self) -> bool:
        # A brace is part of a word in `{}` and `{a,b}`.
        following = self.text[self.at + 1 : self.at + 2]
        return self.text[self.at] in "{}" and bool(following.strip()) and following not in ";&|"

    def skip_redirection(self) -> None:
        self.is_file = not self.text.startswith("<<", self.at)
        while self.at < len(self.text) and self.text[self.at] in "<>&|":
            self.at += 1
        if not self.is_file:  # the word that ends a here-document, or a here-string
            while self.text[self.at : self.at + 1] in (" ", "\t"):
                self.at += 1
            count = len(self.words)
            self.read_word()
            del self.words[count:]

    def end_command(self, *, is_pipe: bool) -> None:
        words = self.words
        while words and (words[0].text in PREFIXES or is_assignment(words[0].text)):
            words = words[1:]
        if words or self.files:
            kept = words or [FoundWord(":", self.files[0].start, self.files[0].start)]
            self.commands.append(FoundCommand(tuple(kept), tuple(self.files), self.is_fed))
        self.words, self.files, self.is_file, self.is_fed = [], [], False, is_pipe

    def read_word(self) -> None:
        start = self.at
        parts: list[str] = []
        while self.at < len(self.text) and not self.ends_word(start):
            character = self.text[self.at]
            if character == "\\":
                parts.append(self.text[self.at + 1 : self.at + 2].strip("\n"))
                self.at += 2
            elif character in "'\"":
                self.read_quoted(character, parts)
            elif character == "`" or self.text.startswith(("$(", "<(", ">("), self.at):
                self.read_substitution(parts)
            elif character == "$" and self.text[self.at + 1 : self.at + 2] in ("'", '"'):
                self.at += 1
            else:
                parts.append(character)
                self.at += 1
        self.at = min(self.at, len(self.text))  # behind a quote that does not end
        found = FoundWord("".join(parts), self.offset + start, self.offset + self.at)
        if self.text[self.at : self.at + 1] in ("<", ">") and found.text.isdecimal():
            return  # the number of a file descriptor
        (self.files if self.is_file else self.words).append(found)
        self.is_file = False

    def ends_word(self, start: int) -> bool:
        character = self.text[self.at]
        if character in "{}":
            return False
        if character in "<>":
            return self.text[self.at + 1 : self.at + 2] != "("
        return character in " \t\r" or (character in ENDING and self.at > start)

    def read_quoted(self, quote: str, parts: list[str]) -> None:
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != quote:
            if quote == '"' and self.text[self.at] == "\\":
                self.at += 1
                parts.append(self.text[self.at : self.at + 1])
                self.at += 1
            elif quote == '"' and (self.text[self.at] == "`" or self.starts_substitution()):
                self.read_substitution(parts)
            else:
                parts.append(self.text[self.at])
                self.at += 1
        self.at += 1

    def starts_substitution(self) -> bool:
        return self.text.startswith("$(", self.at)

    def read_substitution(self, parts: list[str]) -> None:
        start = self.at
        if self.text[self.at] == "`":
            end = self.text.find("`", self.at + 1)
            end = len(self.text) if end < 0 else end
            inside = self.at + 1
        else:
            inside = self.at + 2
            end = self.find_closing(inside)
        self.substitutions.append((self.text[inside:end], self.offset + inside))
        self.at = end + 1
        parts.append(self.text[start : self.at])

    def find_closing(self, at: int) -> int:
        level = 1
        while at < len(self.text):
            level += {"(": 1, ")": -1}.get(self.text[at], 0)
            if not level:
                return at
            at += 1
        return at


def is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.removesuffix("+").isidentifier()
