"""Read a shell line strictly: every command in it is known exactly, or it is unreadable (pure).

Two readers must agree on each word: the scanner in this module, which accepts a small part of the
syntax that bash, zsh and dash read alike, and the grammar of bash. Expansions, substitutions,
redirections to files, escapes, groups, and keywords are outside of that part.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from string import ascii_letters, digits

from tree_sitter import Node

from retries.permissions.shell_grammar import is_too_long, parse, word_set

MOST_COMMANDS = 50

PLAIN = frozenset(ascii_letters + digits + "_-./:,+@%=")
GLOB = frozenset("*?[]")
# At the start of a word, or behind a slash or `=`, shells expand these.
INSIDE_WORD = frozenset("~^")
PROGRAM = frozenset(ascii_letters + digits + "_-./+")
COMMENT = PLAIN | {" ", "#"}
# In double quotes, these are read by the shell: `!` by one that keeps a history.
READ_IN_QUOTES = frozenset('"$`\\!')
# Words that are no program, in bash or in zsh.
KEYWORDS = word_set(
    "if then elif else fi for select while until do done case esac in function time coproc"
    " foreach end repeat nocorrect noglob"
)
JOINING = frozenset({"&&", "||", "|"})
# Only what can write no file; it ends a command. It is matched at the start.
REDIRECTION = re.compile(r"(?:[12]?>&[12]|[12]?>>? ?/dev/null|< ?/dev/null)(?=[ \n;|&]|\Z)")


class UnreadableLine(ValueError):
    """The line has a part that the strict reader does not accept."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word as the program gets it; `source` is how the line writes it."""

    text: str
    source: str
    # Whether the shell replaces it by the names of files.
    is_pattern: bool

    def is_same(self, other: "Word") -> bool:
        if self.is_pattern or other.is_pattern:
            return self.source == other.source
        return self.text == other.text

    def __str__(self) -> str:
        if self.is_pattern or self.source == self.text:
            return self.source
        if self.text and self.text[0] != "=" and PLAIN.issuperset(self.text):
            return self.text
        return f"'{self.text}'" if "'" not in self.text else f'"{self.text}"'


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command; `operator` joins it to the one before, `;` also stands for a line break."""

    words: tuple[Word, ...]
    operator: str = ""

    @property
    def program(self) -> str:
        return self.words[0].text

    @property
    def is_fed(self) -> bool:
        return self.operator == "|"

    def __str__(self) -> str:
        return " ".join(map(str, self.words))


@dataclass(frozen=True, slots=True)
class Token:
    """A part of the line: a program, word, operator, redirection, or comment."""

    kind: str
    start: int
    end: int


def read_line(line: str) -> tuple[Command, ...]:
    """Return the commands of a line, or raise UnreadableLine.

    >>> [str(each) for each in read_line('npm ci && npm test -- "a b" 2>&1 | tail -3')]
    ['npm ci', "npm test -- 'a b'", 'tail -3']
    """
    if is_too_long(line):
        raise UnreadableLine("The line is too long.")
    scanner = Scanner(line)
    commands = scanner.scan()
    source = line.encode()
    root = parse(source)
    if root.has_error or list(list_tokens(root, source)) != scanner.tokens:
        raise UnreadableLine("The line can be read in more than one way.")
    return commands


def join_commands(commands: tuple[Command, ...]) -> str:
    """Return commands as a line with single spaces.

    >>> join_commands(read_line("cd app;npm  test"))
    'cd app; npm test'
    """
    line = ""
    for each in commands:
        line += f"{' ' if each.operator not in ('', ';') else ''}{each.operator}"
        line += f"{' ' if each.operator else ''}{each}"
    return line


class Scanner:
    """Reads a line from left to right; it accepts only what it knows."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.at = 0
        self.tokens: list[Token] = []
        self.commands: list[Command] = []
        self.words: list[Word] = []
        self.operator = ""
        self.is_redirected = False

    def scan(self) -> tuple[Command, ...]:
        while self.at < len(self.line):
            self.scan_next()
        if self.words:
            self.end_command("")
        elif self.operator in JOINING or not self.commands:
            raise UnreadableLine("A command is missing.")
        if len(self.commands) > MOST_COMMANDS:
            raise UnreadableLine("The line has too many commands.")
        return tuple(self.commands)

    def scan_next(self) -> None:
        character = self.line[self.at]
        if character == " ":
            self.at += 1
        elif character == "\n":
            self.at += 1
            if self.words:
                self.end_command(";")
        elif character in ";&|":
            self.scan_operator()
        elif character == "#":
            self.scan_comment()
        elif self.words and (found := REDIRECTION.match(self.line, self.at)):
            self.add("redirection", found.end())
            self.is_redirected = True
        else:
            self.scan_word()

    def scan_operator(self) -> None:
        run = self.line[self.at : self.at + 3]
        operator = next((each for each in ("&&", "||", ";", "|") if run.startswith(each)), "")
        if not operator or run[len(operator) : len(operator) + 1] in tuple(";&|"):
            raise UnreadableLine("The line runs something in the background, or is no valid line.")
        if not self.words:
            raise UnreadableLine("A command is missing.")
        self.add("operator", self.at + len(operator))
        self.end_command(operator)

    def scan_comment(self) -> None:
        # A comment has no character that matters to a shell without comments.
        end = self.line.find("\n", self.at)
        end = len(self.line) if end < 0 else end
        is_apart = self.at == 0 or self.line[self.at - 1] in " \n"
        if not is_apart or not COMMENT.issuperset(self.line[self.at : end]):
            raise UnreadableLine("A comment has characters that could be part of a command.")
        self.add("comment", end)

    def scan_word(self) -> None:
        if self.is_redirected:
            raise UnreadableLine("A word follows a redirection.")
        start = self.at
        is_pattern = self.scan_plain()
        text = self.line[start : self.at]
        if self.at < len(self.line) and self.line[self.at] in "'\"":
            if text and not text.endswith("="):
                raise UnreadableLine("A quote begins inside of a word.")
            text += self.scan_quoted()
        if self.at == start or (self.at < len(self.line) and self.line[self.at] not in " \n;&|"):
            raise UnreadableLine("A word has a character that the shell may read.")
        source = self.line[start : self.at]
        if not self.words and not is_program(source):
            raise UnreadableLine("A command does not begin with the plain name of a program.")
        self.tokens.append(Token("word" if self.words else "program", start, self.at))
        self.words.append(Word(text, source, is_pattern))

    def scan_plain(self) -> bool:
        """Skip the characters outside of quotes; return whether they are a file pattern."""
        start, is_pattern = self.at, False
        while self.at < len(self.line):
            character = self.line[self.at]
            if character in INSIDE_WORD:
                before = self.line[self.at - 1 : self.at] if self.at > start else ""
                if not (before.isascii() and before.isalnum()) and before not in INSIDE_WORD:
                    break
            elif character in GLOB:
                is_pattern = True
            elif character not in PLAIN or (character == "=" and self.at == start):
                break  # zsh replaces `=name` by the path of a program
            self.at += 1
        return is_pattern

    def scan_quoted(self) -> str:
        quote = self.line[self.at]
        end = self.line.find(quote, self.at + 1)
        text = self.line[self.at + 1 : end]
        if end < 0 or not text.isprintable():
            raise UnreadableLine("A quote does not end in its line, or has invisible characters.")
        if quote == '"' and not READ_IN_QUOTES.isdisjoint(text):
            raise UnreadableLine("The shell replaces a part of a text in double quotes.")
        self.at = end + 1
        return text

    def add(self, kind: str, end: int) -> None:
        self.tokens.append(Token(kind, self.at, end))
        self.at = end

    def end_command(self, operator: str) -> None:
        self.commands.append(Command(tuple(self.words), self.operator))
        self.words, self.operator, self.is_redirected = [], operator, False


def is_program(word: str) -> bool:
    """Return whether a shell reads a word as the name of a program, and not as syntax."""
    return PROGRAM.issuperset(word) and word[0] not in "-+" and word not in KEYWORDS


# ---- the same line, as the grammar reads it

GROUPS = frozenset({"program", "list", "pipeline", "redirected_statement", "command"})
WORDS = frozenset({"word", "number", "raw_string", "string", "concatenation"})
PARTS = frozenset({"word", "number", "raw_string", "string", "string_content", '"'})
REDIRECTED = frozenset({"file_descriptor", ">", ">>", ">&", "<", "word", "number"})
SEPARATORS = frozenset({"&&", "||", "|", ";"})


def list_tokens(root: Node, source: bytes) -> Iterator[Token]:
    # A byte that begins no character continues the one before.
    starts = [n for n, byte in enumerate(source) if byte & 0xC0 != 0x80]
    positions = {start: n for n, start in enumerate([*starts, len(source)])}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_missing or node.is_error:
            raise UnreadableLine("The grammar of bash does not accept the line.")
        if node.type in GROUPS:
            stack.extend(reversed(node.children))
            continue
        yield Token(
            find_kind(node), positions.get(node.start_byte, -1), positions.get(node.end_byte, -1)
        )


def find_kind(node: Node) -> str:
    """Return the kind of a node's token, if everything inside of the node is plain."""
    inside = [each.type for each in list_inside(node)]
    if node.type == "command_name" and inside in (["word"], ["number"]):
        return "program"
    if node.type in WORDS and PARTS.issuperset(inside):
        return "word"
    if node.type == "file_redirect" and REDIRECTED.issuperset(inside):
        return "redirection"
    if node.type in SEPARATORS:
        return "operator"
    if node.type == "comment":
        return "comment"
    raise UnreadableLine("The line has syntax that could run something else.")


def list_inside(node: Node) -> Iterator[Node]:
    stack = list(node.children)
    while stack:
        found = stack.pop()
        yield found
        stack.extend(found.children)
