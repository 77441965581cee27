"""The commands of a shell line that an agent ran, each with its exit code where that is known.

The grammar of bash decides what a command is. The texts of here-documents, redirections, variables
that are set for one command, and programs that start another one (`timeout`, `env`, `sudo`) are no
part of a command's line.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tree_sitter import Node

from retries.agent_hooks.shell_words import (
    UNKNOWN_FOLDER,
    code_behind,
    find_cd_folder,
    find_script,
    folders_in,
    is_assignment,
    read_settings,
    skip_launchers,
)
from retries.permissions.shell_grammar import is_too_long, parse

# What is nested deeper is not read.
MOST_LEVELS = 50

ENDING = {"exit", "return"}
CHANGING_FOLDER = {"cd", "pushd"}
# Where a line fails, its failure is that of the command behind these.
PREPARING = {"cd", "pushd", "export", "set", "source", ".", "shopt", "umask", "unset"}

SEQUENCES = {"program", "compound_statement", "do_group"}
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
    # The variables that are set for this command alone, such as `CI=1`.
    variables: frozenset[str] = frozenset()
    # The folders that the line changed to before, each relative to the one in front of it.
    folders: tuple[str, ...] = ()
    # Whether its output goes to a file, or the line contains its input.
    is_redirected: bool = False

    @property
    def program(self) -> str:
        return self.line.partition(" ")[0]


def read_commands(line: str, exit_code: int | None = None) -> list[ShellCommand]:
    """Return the commands of a line in their order; `exit_code` is that of the whole line.

    >>> line = "cd app && CI=1 timeout 9 make  test 2>&1 | tail -3"
    >>> [each.line for each in read_commands(line)]
    ['cd app', 'make test', 'tail -3']
    """
    return [] if is_too_long(line) else list(Reader().read_line(line, exit_code))


@dataclass(frozen=True, slots=True)
class Shell:
    """The state of the shell that runs a part of the line."""

    pipefail: bool = False
    errexit: bool = False
    folders: tuple[str, ...] = ()
    # The exit codes with which it may have ended before; None is any code.
    endings: tuple[int | None, ...] = ()
    has_ended: bool = False


@dataclass(slots=True)
class Reader:
    """Reads one line; `shell` and `level` are those of the part that is read."""

    shell: Shell = Shell()
    level: int = 0
    source: bytes = field(default=b"", init=False)
    # Whether the part that is read is redirected.
    is_redirected: bool = False
    # The functions and aliases that the line defines.
    defined: set[str] = field(default_factory=set)

    def read_line(self, line: str, code: int | None) -> Iterator[ShellCommand]:
        self.source = line.encode(errors="replace")
        root = parse(self.source)
        if not root.has_error:
            yield from self.read(root, code)
            return
        # The parts without an error are read; how the shell took the others is not known.
        for node, following in pairwise([*root.named_children, None]):
            if node and not node.has_error and not (following and following.has_error):
                yield from self.read(node, None)

    def read(self, node: Node, code: int | None) -> Iterator[ShellCommand]:
        if self.level >= MOST_LEVELS:
            return
        self.level += 1
        if node.type == "subshell":
            yield from self.read_subshell(node.children, code)
        elif node.type in SEQUENCES:
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
            yield self.command(self.text(node).split(), code)
        elif node.type in LOOPS:
            for part in node.named_children:
                yield from self.read(part, None)
        elif node.type == "if_statement":
            # Which branch ran is not known.
            if condition := node.child_by_field_name("condition"):
                yield from self.read(condition, None)
        elif node.type in SUBSTITUTIONS:
            yield from self.read_subshell(node.named_children, None)
        elif node.type == "negated_command":
            yield from self.read_sequence(node.named_children, None)
        elif node.type == "function_definition":
            if name := node.child_by_field_name("name"):
                self.defined.add(self.text(name))
        elif node.type not in ("case_statement", "comment"):
            yield from self.read_substitutions(node)
        self.level -= 1

    def read_subshell(self, nodes: Sequence[Node], code: int | None) -> Iterator[ShellCommand]:
        before = self.shell
        yield from self.read_sequence(nodes, code)
        self.shell = before

    def read_sequence(self, nodes: Sequence[Node], code: int | None) -> Iterator[ShellCommand]:
        """Yield the commands of consecutive statements; the line's exit code is the last one's."""
        parts = [node for node in nodes if node.is_named or node.type == "&"]
        parts = [node for node in parts if node.type != "comment"]
        may_have_ended = False  # by `set -e`
        for node, following in pairwise([*parts, None]):
            if not node or not node.is_named:
                continue
            if following and following.type == "&":
                yield from self.read_subshell([node], None)
                continue
            before = self.shell
            if following is None and not (code and may_have_ended):
                own = code
            elif self.shell.errexit and code == 0 and is_plain(node):
                own = 0
            else:
                own = None
            found = list(self.read(node, own))
            yield from found
            if is_plain(node) and self.shell.has_ended:
                return
            # Whether the second command of a list ran is not known.
            is_set = self.text(node).startswith("set ") or node.type != "list"
            pipefail = self.shell.pipefail and (before.pipefail or is_set)
            self.shell = replace(self.shell, pipefail=pipefail, has_ended=False)
            is_prepared = all(each.program in PREPARING for each in found)
            may_have_ended = may_have_ended or (self.shell.errexit and not is_prepared)

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
        before = self.shell
        yield from self.read_pipeline(right, code if is_right else None)
        if operator == "||":
            # Whether the right one ran is not known.
            pipefail = before.pipefail and self.shell.pipefail
            is_same = self.shell.folders == before.folders
            folders = before.folders if is_same else (*before.folders, UNKNOWN_FOLDER)
            self.shell = replace(self.shell, pipefail=pipefail, folders=folders)

    def read_pipeline(self, nodes: Sequence[Node], code: int | None) -> Iterator[ShellCommand]:
        """Yield the commands of a pipeline, which ends as its last one does, or as all of them."""
        # The grammar puts all of `a && b 2>&1` in front of the bar of `a && b 2>&1 | c`.
        body = nodes[0].child_by_field_name("body")
        if len(nodes) > 1 and body and body.type == "list":
            pair = body.children
            yield from self.read_pair(pair[0], pair[1].type, [pair[-1], *nodes[1:]], code)
            return
        *others, last = nodes
        if not others:
            yield from self.read(last, code)
            return
        if self.shell.pipefail and code != 0:
            code = None
        for node in others:
            yield from self.read_subshell([node], code if self.shell.pipefail else None)
        yield from self.read_subshell([last], code)

    def read_redirected(self, node: Node, code: int | None) -> Iterator[ShellCommand]:
        # The grammar puts the rest of the line after `<<EOF` below the here-document.
        body = node.child_by_field_name("body")
        operator = right = pipeline = None
        was_redirected = self.is_redirected
        for redirection in node.children_by_field_name("redirect"):
            yield from self.read_substitutions(redirection)
            self.is_redirected = self.is_redirected or self.is_data(redirection)
            if redirection.type == "heredoc_redirect":
                right = redirection.child_by_field_name("right") or right
                operator = redirection.child_by_field_name("operator") or operator
                pipelines = [each for each in redirection.children if each.type == "pipeline"]
                pipeline = next(iter(pipelines), pipeline)
        if body and right and operator:
            yield from self.read_pair(body, operator.type, [right], code)
        elif body and pipeline:
            yield from self.read_pipeline([body, *pipeline.named_children], code)
        elif body:
            yield from self.read(body, code)
        self.is_redirected = was_redirected

    def is_data(self, redirection: Node) -> bool:
        if redirection.type != "file_redirect":
            return True
        text = self.text(redirection)
        target = text.lstrip("0123456789<>&| ")
        return ">" in text and bool(target) and not target.startswith("/dev/")

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
        front = words[: len(words) - len(launched)]
        code = code_behind(front, code)
        variables = [self.text(each) for each in nodes if each.type == "variable_assignment"]
        variables += filter(is_assignment, front)
        before = self.shell
        self.shell = replace(before, folders=(*before.folders, *folders_in(front)))
        if script := find_script(launched):
            yield from self.read_script(launched, script, code)
        elif launched:
            yield from self.read_substitutions(node)
            found = self.command(launched, code)
            is_redirected = found.is_redirected or any(
                self.is_data(each) for each in node.children if each.type in REDIRECTIONS
            )
            yield replace(found, variables=frozenset(variables), is_redirected=is_redirected)
        self.shell = replace(self.shell, folders=before.folders)
        self.change_shell(front, launched)

    def read_script(
        self, words: list[str], script: str, code: int | None
    ) -> Iterator[ShellCommand]:
        settings = read_settings(words[1:])
        shell = Shell("pipefail" in settings, "errexit" in settings, self.shell.folders)
        yield from Reader(shell, self.level).read_line(script, self.code_here(code))

    def command(self, words: list[str], code: int | None) -> ShellCommand:
        own = None if words[0] in self.defined else self.code_here(code)
        folders, is_redirected = self.shell.folders, self.is_redirected
        return ShellCommand(" ".join(words), own, folders=folders, is_redirected=is_redirected)

    def code_here(self, code: int | None) -> int | None:
        """Return a part's exit code; None if the shell may have ended with it before that part."""
        return None if any(each in (None, code) for each in self.shell.endings) else code

    def change_shell(self, front: list[str], words: list[str]) -> None:
        shell, name = self.shell, words[0] if words else ""
        status: int | None = None
        if name in ENDING and words[1:] and words[1].isdecimal():
            status = int(words[1])
        if name == "set":
            known = {"pipefail": shell.pipefail, "errexit": shell.errexit}
            settings = read_settings(words[1:], known=known)
            shell = replace(shell, pipefail="pipefail" in settings, errexit="errexit" in settings)
            ends = "noexec" in settings
        else:
            ends = name in ENDING or "exec" in front
        if name in CHANGING_FOLDER or name == "popd":
            shell = replace(shell, folders=(*shell.folders, find_cd_folder(words)))
        elif name == "alias":
            self.defined.update(word.partition("=")[0] for word in words[1:])
        if ends or (name == "trap" and "exit" in " ".join(words)):
            shell = replace(shell, endings=(*shell.endings, status), has_ended=ends)
        self.shell = shell

    def read_substitutions(self, node: Node) -> Iterator[ShellCommand]:
        stack = list(reversed(node.named_children))
        while stack:
            found = stack.pop()
            if found.type in SUBSTITUTIONS:
                yield from self.read(found, None)
            elif found.type != "pipeline":
                stack.extend(reversed(found.named_children))

    def text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")


def is_plain(node: Node) -> bool:
    """Return whether a statement is one command that runs in any case."""
    if node.type != "redirected_statement":
        return node.type == "command"
    has_text = any(each.type == "heredoc_redirect" for each in node.children)
    body = node.child_by_field_name("body")
    return body is not None and body.type == "command" and not has_text
