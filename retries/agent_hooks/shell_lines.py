"""The commands of a shell line that an agent ran, each with its exit code where that is known.

The grammar of bash decides what a command is. The texts of here-documents, redirections, variables
that are set for one command, and programs that start another one (`timeout`, `env`, `sudo`) are no
part of a command.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

# A longer line is not read: the parser's time grows with the square of some operators' number.
LINE_LENGTH = 16_384
MOST_OPERATORS = 400
OPERATORS = "|<"
# What is nested deeper is not read.
MOST_LEVELS = 50

# Programs that start the command behind them, with their options that take the next word as value.
LAUNCHERS = {
    "chronic": frozenset(),
    "command": frozenset(),
    "doas": frozenset({"-u", "-C"}),
    "env": frozenset({"-u", "--unset", "-C", "--chdir"}),
    "exec": frozenset({"-a"}),
    "ionice": frozenset({"-c", "-n"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "sudo": frozenset({"-u", "--user", "-g", "--group", "-D", "--chdir", "-p", "-h", "-C"}),
    "taskset": frozenset(),
    "time": frozenset({"-f", "--format", "-o", "--output"}),
    "timeout": frozenset({"-k", "--kill-after", "-s", "--signal"}),
    "unshare": frozenset(),
    "xvfb-run": frozenset({"-n", "--server-num", "-s", "--server-args", "-e", "--error-file"}),
}
# The duration, or the processors, stand between the options and the command.
WITH_ARGUMENT = {"taskset", "timeout"}
# With these options, a launcher runs nothing.
LOOKUPS = {("command", "-v"), ("command", "-V"), ("sudo", "-l"), ("sudo", "-v")}
# These options of a launcher let the command outlive it.
DETACHING = {("sudo", "-b"), ("sudo", "--background")}
WAITING = {"-w", "--wait"}
# How `timeout` ends where it has ended the command.
TIMED_OUT = {124, 137}
SHELLS = {"sh", "bash", "dash", "zsh"}
# Where a line fails, its failure is that of the command behind these.
PREPARING = {"cd", "pushd", "export", "set", "source", ".", "shopt", "umask", "unset"}

SEQUENCES = {"program", "compound_statement", "subshell", "do_group"}
SUBSTITUTIONS = {"command_substitution", "process_substitution"}
LOOPS = {"for_statement", "c_style_for_statement", "while_statement"}
# Commands of the grammar's own, without a program.
BUILTINS = {"declaration_command", "test_command", "unset_command"}
REDIRECTIONS = {"file_redirect", "heredoc_redirect", "herestring_redirect"}


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command with single spaces between its words; None is an exit code that is not known."""

    line: str
    exit_code: int | None = None

    @property
    def program(self) -> str:
        return self.line.partition(" ")[0]


@cache
def grammar() -> Language:
    return Language(tree_sitter_bash.language())


def read_commands(line: str, exit_code: int | None = None) -> list[ShellCommand]:
    """Return the commands of a line in their order; `exit_code` is that of the whole line.

    >>> line = "cd app && CI=1 timeout 9 make  test 2>&1 | tail -3"
    >>> [each.line for each in read_commands(line)]
    ['cd app', 'make test', 'tail -3']
    """
    return [] if is_too_long(line) else list(Reader().read_line(line, exit_code))


def is_too_long(line: str) -> bool:
    return len(line) > LINE_LENGTH or sum(map(line.count, OPERATORS)) > MOST_OPERATORS


@dataclass(slots=True)
class Reader:
    """Reads one line; `pipefail` and the level are those of the part that is read."""

    pipefail: bool = False
    level: int = 0
    source: bytes = field(default=b"", init=False)

    def read_line(self, line: str, code: int | None) -> Iterator[ShellCommand]:
        self.source = line.encode(errors="replace")
        root = Parser(grammar()).parse(self.source).root_node
        if not root.has_error:
            yield from self.read(root, code)
            return
        # The parts without an error are read; how the shell took the others is not known.
        for node, following in pairwise([*root.named_children, None]):
            if node and not node.has_error and not (following and following.has_error):
                yield from self.read(node, None)

    def read(self, node: Node, code: int | None) -> Iterator[ShellCommand]:
        """Yield the commands of a part of the line whose exit code is `code`."""
        if self.level >= MOST_LEVELS:
            return
        self.level += 1
        if node.type in SEQUENCES:
            yield from self.read_sequence(node.children, code)
        elif node.type == "list":
            left, operator, right = node.children[0], node.children[1], node.children[-1]
            yield from self.read_pair(left, operator.type, [right], code)
        elif node.type == "pipeline":
            yield from self.read_pipeline(node.named_children, code)
        elif node.type == "redirected_statement":
            yield from self.read_redirected(node, code)
        elif node.type == "command":
            yield from self.read_command(node, code)
        elif node.type in BUILTINS:
            yield from self.read_substitutions(node)
            yield ShellCommand(" ".join(self.text(node).split()), code)
        elif node.type in LOOPS:
            for part in node.named_children:
                yield from self.read(part, None)
        elif node.type == "if_statement":
            # Which branch ran is not known.
            if condition := node.child_by_field_name("condition"):
                yield from self.read(condition, None)
        elif node.type in SUBSTITUTIONS or node.type == "negated_command":
            yield from self.read_sequence(node.named_children, None)
        elif node.type not in ("case_statement", "function_definition", "comment"):
            yield from self.read_substitutions(node)
        self.level -= 1

    def read_sequence(self, nodes: Sequence[Node], code: int | None) -> Iterator[ShellCommand]:
        """Yield the commands of statements in a row: the line's exit code is the last one's."""
        parts = [node for node in nodes if node.is_named or node.type == "&"]
        parts = [node for node in parts if node.type != "comment"]
        for node, following in pairwise([*parts, None]):
            if node and node.is_named:
                yield from self.read(node, code if following is None else None)

    def read_pair(
        self, left: Node, operator: str, right: Sequence[Node], code: int | None
    ) -> Iterator[ShellCommand]:
        """Yield the commands of `left && right` or `left || right`, where `right` is a pipeline."""
        if operator == "&&":
            first = list(self.read(left, 0 if code == 0 else None))
            is_right = code == 0 or all(each.program in PREPARING for each in first)
        else:
            # 0 may be the exit code of either; another is the right one's.
            first = list(self.read(left, None))
            is_right = code != 0
        yield from first
        yield from self.read_pipeline(right, code if is_right else None)

    def read_pipeline(self, nodes: Sequence[Node], code: int | None) -> Iterator[ShellCommand]:
        """Yield the commands of a pipeline, which ends as its last one does, or as all of them.

        The grammar puts all of `a && b 2>&1` in front of the bar of `a && b 2>&1 | c`.
        """
        body = nodes[0].child_by_field_name("body")
        if len(nodes) > 1 and body and body.type == "list":
            pair = body.children
            yield from self.read_pair(pair[0], pair[1].type, [pair[-1], *nodes[1:]], code)
            return
        *others, last = nodes
        if self.pipefail and code != 0 and others:
            code = None
        for node in others:
            yield from self.read(node, code if self.pipefail else None)
        yield from self.read(last, code)

    def read_redirected(self, node: Node, code: int | None) -> Iterator[ShellCommand]:
        """Yield the commands of a statement with redirections.

        The grammar hangs what follows `<<EOF` in the same line below the here-document.
        """
        body = node.child_by_field_name("body")
        operator = right = pipeline = None
        for redirection in node.children_by_field_name("redirect"):
            yield from self.read_substitutions(redirection)
            if redirection.type == "heredoc_redirect":
                right = redirection.child_by_field_name("right") or right
                operator = redirection.child_by_field_name("operator") or operator
                pipelines = [each for each in redirection.children if each.type == "pipeline"]
                pipeline = next(iter(pipelines), pipeline)
        if body is None:
            return
        if right and operator:
            yield from self.read_pair(body, operator.type, [right], code)
        elif pipeline:
            yield from self.read_pipeline([body, *pipeline.named_children], code)
        else:
            yield from self.read(body, code)

    def read_command(self, node: Node, code: int | None) -> Iterator[ShellCommand]:
        nodes = [each for each in node.children if each.type not in REDIRECTIONS]
        words = [self.text(each) for each in nodes if each.type != "variable_assignment"]
        if nodes and nodes[-1].type == "subshell":  # time (a; b)
            yield from self.read(nodes[-1], code)
            return
        # The grammar drops a dash in front of a here-document, as in `python - <<EOF`.
        following = node.next_named_sibling
        if following and following.type == "heredoc_redirect":
            words += (
                self.source[node.end_byte : following.start_byte].decode(errors="replace").split()
            )
        launched = skip_launchers(words)
        code = code_behind(words[: len(words) - len(launched)], code)
        words = launched
        if script := find_script(words):
            inner = Reader(pipefail="pipefail" in words, level=self.level)
            yield from inner.read_line(script, code)
            return
        yield from self.read_substitutions(node)
        if words[:1] == ["set"] and "pipefail" in words:
            self.pipefail = words[words.index("pipefail") - 1].startswith("-")
        if words:
            yield ShellCommand(" ".join(words), code)

    def read_substitutions(self, node: Node) -> Iterator[ShellCommand]:
        """Yield the commands of `$(…)` and `<(…)` below a node."""
        stack = list(reversed(node.named_children))
        while stack:
            found = stack.pop()
            if found.type in SUBSTITUTIONS:
                yield from self.read(found, None)
            elif found.type != "pipeline":
                stack.extend(reversed(found.named_children))

    def text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")


def skip_launchers(words: list[str]) -> list[str]:
    """Return the words without the programs in front that start the command.

    >>> skip_launchers(["sudo", "-u", "app", "env", "A=1", "timeout", "-k", "5", "60", "make"])
    ['make']
    """
    while words and (options := LAUNCHERS.get(name := words[0].rpartition("/")[2])) is not None:
        rest = words[1:]
        while rest and rest[0].startswith("-"):
            if (name, rest[0]) in LOOKUPS:
                return words
            rest = rest[2:] if takes_next(rest[0], options) else rest[1:]
        rest = rest[name in WITH_ARGUMENT :]
        while rest and is_assignment(rest[0]):
            rest = rest[1:]
        if not rest:
            return words
        words = rest
    return words


def code_behind(launchers: list[str], code: int | None) -> int | None:
    """Return the exit code of the command behind these words; None where it may be their own.

    >>> [code_behind(["timeout", "9"], code) for code in (0, 2, 124)]
    [0, 2, None]
    """
    names = {word.rpartition("/")[2] for word in launchers}
    options = set(launchers)
    is_detached = any(name in names and option in options for name, option in DETACHING)
    # `setsid` ends at once where it leads a group of processes, which this line does not show.
    is_detached = is_detached or ("setsid" in names and not options & WAITING)
    is_timed_out = "timeout" in names and code in TIMED_OUT
    return None if is_detached or is_timed_out else code


def takes_next(option: str, options: frozenset[str]) -> bool:
    """Return whether the next word is the value of an option, or of the last in `-iu`.

    >>> [takes_next(each, frozenset({"-u"})) for each in ("-u", "-iu", "-uroot", "-i")]
    [True, True, False, False]
    """
    if option in options or option.startswith("--"):
        return option in options
    letters = [n for n, letter in enumerate(option) if f"-{letter}" in options]
    return bool(letters) and letters[0] == len(option) - 1


def is_assignment(word: str) -> bool:
    name, equals, _ = word.lstrip("\"'").partition("=")
    return bool(equals) and name.isidentifier()


def find_script(words: list[str]) -> str:
    """Return the script of `bash -lc "…"`; empty where the words start no shell with one.

    >>> find_script(["bash", "-o", "pipefail", "-c", "'make test'"])
    'make test'
    """
    if not words or words[0].rpartition("/")[2] not in SHELLS:
        return ""
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        option, rest = rest[0], rest[1:]
        if option.endswith("o"):
            rest = rest[1:]  # the name of a setting
        if "c" in option and not option.startswith("--"):
            rest = [word for word in rest if not word.startswith("-")] if option != "-c" else rest
            return unquoted(rest[0]) if rest else ""
    return ""


def unquoted(word: str) -> str:
    """Return a word as the shell hands it on; expansions stay as they are."""
    if len(word) > 1 and word[0] == word[-1] == "'":
        return word[1:-1]
    if len(word) > 1 and word[0] == word[-1] == '"':
        word = word[1:-1]
        for escaped in ('\\"', "\\$", "\\`", "\\\\"):
            word = word.replace(escaped, escaped[1])
    return word
