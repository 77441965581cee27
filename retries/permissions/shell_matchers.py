"""The matchers of shell tools: which commands a rule names (pure).

An allow matcher is one command, or a whole line of commands, as it would be typed. `*` stands for
one word, and `**` at the end for any number of them, that are plain: no option, assignment,
address, or path outside of the folder. A deny matcher is one command, in which `*` is any word or
part of a word and `**` any words, wherever it stands.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from string import ascii_letters, digits

from retries.permissions.command_lines import (
    Command,
    UnreadableLine,
    Word,
    join_commands,
    read_line,
)
from retries.permissions.loose_commands import FoundCommand, find_commands
from retries.permissions.path_globs import find_parts, is_guarded, matches_wildcard
from retries.permissions.runners import PLACEHOLDERS, check_placeholders, find_program
from retries.permissions.shell_grammar import word_set

CHANGING_FOLDER = frozenset({"cd", "pushd", "chdir"})
RETURNING = frozenset({"popd", "dirs"})
# Programs that do nothing but print what they are fed.
FILTERS = word_set(
    "cat column cut egrep fgrep fold grep head jq nl rev rg sort tac tail tr uniq wc"
)
# The same, if their script does not come from what they are fed.
SCRIPTED_FILTERS = frozenset({"sed", "gsed"})

ARGUMENT = frozenset(ascii_letters + digits + "_-./:,+@ ")
# A path may follow each of these.
SEPARATORS = ":,@+"


class MatcherError(ValueError):
    """A matcher that no rule may have; the message says what to write instead."""


# ---- allow


@dataclass(frozen=True, slots=True)
class AllowedCommands:
    """An allow rule's matcher: commands whose words are literal or placeholders."""

    commands: tuple[Command, ...]

    @property
    def has_placeholder(self) -> bool:
        return any(map(is_placeholder, self.words))

    @property
    def words(self) -> Iterable[Word]:
        return (word for command in self.commands for word in command.words)

    def matches_line(self, line: "AllowableLine") -> bool:
        if len(self.commands) == 1:
            return all(self.matches_command(line, n) for n in range(len(line.commands)))
        return len(self.commands) == len(line.commands) and all(
            wanted.operator == found.operator and matches_words(wanted, found, line.folder)
            for wanted, found in zip(self.commands, line.commands, strict=True)
        )

    def matches_command(self, line: "AllowableLine", at: int) -> bool:
        is_alone = len(line.commands) == 1
        return (
            len(self.commands) == 1
            and (is_alone or at not in line.dependent)
            and matches_words(self.commands[0], line.commands[at], line.folder)
        )


@dataclass(slots=True)
class AllowableLine:
    """A line whose commands are all known, and none of which leaves the folder with `cd`.

    What a dependent command does depends on those in front of it: they changed the folder, or feed
    a program that may run what it reads. Only a rule that names the whole line allows one.
    """

    commands: tuple[Command, ...]
    folder: str
    dependent: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        is_elsewhere = False
        for at, command in enumerate(self.commands):
            if is_elsewhere or (command.is_fed and not is_filter(command)):
                self.dependent.add(at)
            is_elsewhere = is_elsewhere or changes_folder(command, self.folder)


def read_allowable_line(line: str, folder: str) -> AllowableLine | None:
    try:
        return AllowableLine(read_line(line), folder)
    except UnreadableLine:
        return None


def changes_folder(command: Command, folder: str) -> bool:
    """Return whether a command changes the folder; raise UnreadableLine if it leaves `folder`."""
    program = find_program(command.program)
    if program in RETURNING:
        raise UnreadableLine("Which folder the shell returns to is not known.")
    if program not in CHANGING_FOLDER:
        return False
    words = command.words[1:]
    is_plain = len(words) == 1 and not words[0].is_pattern and words[0].text[:1] not in ("-", "+")
    parts = find_parts(words[0].text, folder) if is_plain else None
    if parts is None:
        raise UnreadableLine("The line changes to a folder outside of the agent's.")
    return bool(parts)


def is_filter(command: Command) -> bool:
    if command.program in FILTERS:
        return True
    options = [word.text for word in command.words[1:] if word.text.startswith("-")]
    return command.program in SCRIPTED_FILTERS and not any("f" in each for each in options)


def read_allow_matcher(matcher: str) -> AllowedCommands:
    try:
        commands = read_line(matcher)
    except UnreadableLine as error:
        raise MatcherError(
            f"{error} Write one command, such as `npm test` or `git push origin *`, without"
            " expansions, redirections and groups."
        ) from None
    if (plain := join_commands(commands)) != matcher:
        raise MatcherError(f"Write it as `{plain}`.")
    found = AllowedCommands(commands)
    for command in commands:
        check_command(command)
    if len(commands) > 1 and found.has_placeholder:
        check_line(commands)
    return found


def check_command(command: Command) -> None:
    if problem := check_placeholders([mask(word) for word in command.words]):
        raise MatcherError(problem)
    if command.program in RETURNING | {"-"}:
        raise MatcherError("Which folder the shell returns to is not known: no rule can allow it.")


def check_line(commands: Sequence[Command]) -> None:
    """Raise MatcherError if a placeholder's value decides what another command does."""
    for command in commands:
        if command.is_fed and not is_filter(command):
            raise MatcherError(
                f"`{command.program}` may run what it is fed: name the whole line, without `*`."
            )
        if command.program in CHANGING_FOLDER and any(map(is_placeholder, command.words)):
            raise MatcherError("Name the folder behind `cd`, or make a rule of `cd *` alone.")


def mask(word: Word) -> str:
    # A quoted placeholder is plain text.
    return f"'{word.text}'" if word.text in PLACEHOLDERS and not is_placeholder(word) else word.text


def is_placeholder(word: Word) -> bool:
    return word.is_pattern and word.source in PLACEHOLDERS


def matches_words(wanted: Command, found: Command, folder: str) -> bool:
    words = wanted.words
    if words[0].text != found.words[0].text:
        return False
    rest: Sequence[Word] = ()
    if is_placeholder(words[-1]) and words[-1].source == "**":
        words, rest = words[:-1], found.words[len(words) - 1 :]
    if len(found.words) != len(words) + len(rest):
        return False
    pairs = zip(words, found.words, strict=False)
    return all(
        is_plain_argument(word, folder) if is_placeholder(each) else each.is_same(word)
        for each, word in pairs
    ) and all(is_plain_argument(word, folder) for word in rest)


def is_plain_argument(word: Word, folder: str) -> bool:
    text = word.text
    is_plain = bool(text) and not word.is_pattern and ARGUMENT.issuperset(text)
    return is_plain and all(is_plain_part(part, folder) for part in text.split(" "))


def is_plain_part(part: str, folder: str) -> bool:
    """Return whether a part between spaces is no option, no address, and no path outside.

    >>> [is_plain_part(part, "/app") for part in ("src/a.py::test_b", "host:path", "a,/etc", "-x")]
    [True, False, False, False]
    """
    if not part or part[0] in "-+" or "//" in part:
        return False
    head, colons, tail = part.partition("::")
    # What has a colon without a slash in front of it is the path on a host, or a transport of git.
    if ":" in head or ":" in tail or (colons and "/" not in head):
        return False
    for separator in SEPARATORS:
        part = part.replace(separator, "\n")
    return all(is_inside(piece, folder) for piece in part.split("\n") if piece)


def is_inside(path: str, folder: str) -> bool:
    parts = find_parts(path, folder)
    return parts is not None and not any(map(is_guarded, parts))


def propose_matcher(line: str, folder: str) -> str | None:
    """Return the matcher of a rule that allows exactly this line; None if no rule can."""
    found = read_allowable_line(line, folder)
    if found is None or any(map(is_placeholder, AllowedCommands(found.commands).words)):
        return None
    matcher = join_commands(found.commands)
    try:
        is_allowed = read_allow_matcher(matcher).matches_line(found)
    except MatcherError:
        return None
    return matcher if is_allowed else None


# ---- deny


@dataclass(frozen=True, slots=True)
class DeniedCommand:
    """A deny rule's matcher: the words of one command."""

    words: tuple[str, ...]

    def matches(self, words: Sequence[str]) -> bool:
        at = mine = 0
        star = mark = -1
        while at < len(words):
            if mine < len(self.words) and self.words[mine] == "**":
                star, mark, mine = mine, at, mine + 1
            elif mine < len(self.words) and self.matches_word(mine, words[at]):
                at, mine = at + 1, mine + 1
            elif star >= 0:
                mark += 1
                at, mine = mark, star + 1
            else:
                return False
        return all(word == "**" for word in self.words[mine:])

    def matches_word(self, at: int, word: str) -> bool:
        wanted = self.words[at]
        if at == 0:  # some file systems do not tell upper from lower case
            wanted, word = wanted.casefold(), word.casefold()
        return matches_wildcard(wanted, word)


def read_deny_matcher(matcher: str) -> DeniedCommand:
    words = split_matcher(matcher)
    if not all(words) or matcher != matcher.strip():
        raise MatcherError("Name a command, such as `git push --force **`.")
    return DeniedCommand(words)


def split_matcher(matcher: str) -> tuple[str, ...]:
    commands = find_commands(matcher, depth=0)
    if len(commands) != 1 or not matcher.isprintable() or set("|&;<>()`") & unquoted(matcher):
        raise MatcherError("Name one command in a deny rule, without `;`, `&&`, `|` and the like.")
    return tuple(word.text for word in commands[0].words)


def unquoted(matcher: str) -> set[str]:
    return set("".join(matcher.split("'")[::2]))


def list_readings(command: FoundCommand) -> list[tuple[str, ...]]:
    """Return a command's words, also with the program's name alone, and without git's options.

    >>> command = find_commands("/usr/bin/git -C app push --force")[0]
    >>> list_readings(command)[-1]
    ('git', 'push', '--force')
    """
    words = tuple(word.text for word in command.words)
    name = words[0].replace("\\", "/").rpartition("/")[2].casefold().removesuffix(".exe")
    found = [words, (name, *words[1:])]
    if name == "git":
        rest = list(words[1:])
        while rest and rest[0].startswith("-"):
            takes_value = rest[0] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace")
            rest = rest[1 + takes_value :]
        found.append((name, *rest))
    return found
