"""Find whether a shell call ran a check: its exit code, its folder, and its files (pure).

What is not certain is no proof: then the exit code of the check is not known.
"""

import posixpath
import re
from dataclasses import replace

from retries.agent_hooks.events import HookEvent, commands_of, ending_of, shell_line
from retries.agent_hooks.shell_lines import ShellCommand, read_commands
from retries.agent_hooks.shell_results import CLAUDE
from retries.agent_hooks.shell_words import UNKNOWN_FOLDER

BLANKS = re.compile(r"[ \t]+")
# Programs that change no file of a project.
READING = set(
    """: [ [[ awk basename cat cd cut date declare diff dirname du echo egrep env exit export false
    file find grep head jq ls nl popd printenv printf pushd pwd readlink realpath rg set sleep sort
    stat tail tee test tr tree true type uname uniq unset wait wc which whoami""".split()  # noqa: SIM905
)
# The options with which they do.
WRITING_OPTIONS = {"find": ("-delete", "-exec", "-execdir", "-ok", "-fprint"), "sort": ("-o",)}
# Variables that change how a program prints, and not what it checks.
HARMLESS = {"CI", "COLUMNS", "FORCE_COLOR", "LANG", "LC_ALL", "NO_COLOR", "TERM"}
HARMLESS |= {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
# Git's commands that leave the files as they are.
GIT_READING = set(
    """add blame branch cat-file commit config describe diff fetch grep log ls-files push remote
    rev-list rev-parse shortlog show status tag""".split()  # noqa: SIM905
)


def find_run(
    event: HookEvent, command: str, *, base: str = "", cwd: str = ""
) -> ShellCommand | None:
    """Return how a check ended in a shell call; None if the call did not run it.

    The check belongs in the folder `cwd` below `base`; an empty path is unknown. Its exit code is
    known only if it ran there, and if nothing behind it in the line may have changed a file.
    """
    found = find_in_line(shell_line(event), command, ending_of(event).exit_code)
    folder = find_folder(event, found) if found else None
    wanted = posixpath.normpath(posixpath.join(base, cwd))
    is_there = folder == wanted if base else is_below(folder, cwd)
    return found if found is None or is_there else replace(found, exit_code=None)


def find_in_line(line: str, command: str, code: int | None) -> ShellCommand | None:
    """Return how a command ended in a line with this exit code; None if it did not run."""
    own, given = (BLANKS.sub(" ", text.strip()) for text in (command, line))
    front = given.removesuffix(own)
    if given.endswith(own) and (not front or front.endswith("&& ")):
        *moves, last = read_commands(f"{front}:", 0) or [ShellCommand("?")]
        if last.line == ":" and all(each.program == "cd" for each in moves):
            # Also where the check's own commands share one exit code.
            return replace(last, line=command, exit_code=code)
    wanted, ran = read_commands(command, 0), read_commands(line, code)
    if any(each.exit_code != 0 for each in wanted):
        return None
    lines = [each.line for each in wanted]
    for start in reversed(range(len(ran) - len(wanted) + 1)):
        found, behind = ran[start : start + len(wanted)], ran[start + len(wanted) :]
        if wanted and [each.line for each in found] == lines:
            *others, last = found
            is_known = last.exit_code != 0 or all(each.exit_code == 0 for each in others)
            is_alike = variables_of(found) == variables_of(wanted)
            is_certain = is_known and is_alike and all(map(is_reading, behind))
            return replace(found[0], line=command, exit_code=last.exit_code if is_certain else None)
    return None


def variables_of(commands: list[ShellCommand]) -> list[set[str]]:
    return [
        {each for each in one.variables if each.partition("=")[0] not in HARMLESS}
        for one in commands
    ]


def is_below(folder: str | None, cwd: str) -> bool:
    # An empty path stands for any folder.
    return folder is not None and (not cwd or f"/{folder}".endswith(f"/{posixpath.normpath(cwd)}"))


def find_folder(event: HookEvent, ran: ShellCommand) -> str | None:
    """Return the folder in which a command of the call ran; None if it is unknown."""
    # Claude Code reports the folder after the call, which `cd` may have changed.
    if UNKNOWN_FOLDER in ran.folders or not event.cwd:
        return None if ran.folders else event.cwd
    below = posixpath.normpath(posixpath.join(*ran.folders)) if ran.folders else "."
    if event.program == CLAUDE and event.cwd.endswith(f"/{below}"):
        return posixpath.normpath(event.cwd)
    return posixpath.normpath(posixpath.join(event.cwd, *ran.folders))


def may_change_files(event: HookEvent) -> bool:
    found = commands_of(event)
    return not found or not all(map(is_reading, found))


def is_reading(command: ShellCommand) -> bool:
    """Return whether a command changes no file, as far as its line tells.

    >>> lines = ("tail -5", "git commit -am x", "git stash pop", "find . -delete", "make")
    >>> [is_reading(ShellCommand(line)) for line in lines]
    [True, True, False, False, False]
    """
    program, *words = command.line.split(" ")
    if command.is_redirected:
        return False
    if program == "git":
        return next((word for word in words if not word.startswith("-")), "") in GIT_READING
    return program in READING and not set(words) & set(WRITING_OPTIONS.get(program, ()))
