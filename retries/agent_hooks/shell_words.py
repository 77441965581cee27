"""The words of a shell command: the programs that start it, and what their options mean (pure)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

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
# With these options, a launcher starts the command in another folder.
FOLDER_OPTIONS = {("env", "-C"), ("env", "--chdir"), ("sudo", "-D"), ("sudo", "--chdir")}
# How `timeout` ends where it has ended the command.
TIMED_OUT = {124, 137}
SHELLS = {"sh", "bash", "dash", "zsh"}
# Settings of a shell by their letters, as `read_settings` names them.
SETTINGS = {"e": "errexit", "n": "noexec"}
# A folder that the line alone does not tell, such as `$DIR`.
UNKNOWN_FOLDER = "?"
EXPANSIONS = frozenset("$`*?[~")


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


def folders_in(launchers: list[str]) -> list[str]:
    """Return the folders in which these words start the command.

    >>> folders_in(["sudo", "-D", "/srv", "env", "--chdir=app"])
    ['/srv', 'app']
    """
    name, found = "", []
    for word, following in pairwise([*launchers, ""]):
        name = word.rpartition("/")[2] if word.rpartition("/")[2] in LAUNCHERS else name
        option, equals, value = word.partition("=")
        if (name, option) in FOLDER_OPTIONS:
            found.append(find_cd_folder(["cd", value if equals else following]))
    return found


def find_cd_folder(words: list[str]) -> str:
    """Return the folder that `cd` changes to.

    >>> [find_cd_folder(["cd", folder]) for folder in ("'my app'", "$DIR", "-")]
    ['my app', '?', '?']
    """
    named = [word for word in words[1:] if word not in ("--", "-P", "-L")]
    if words[0] == "popd" or len(named) != 1 or named[0].startswith("-"):
        return UNKNOWN_FOLDER
    word = named[0]
    is_expanded = not word.startswith("'") and EXPANSIONS & set(word)
    return UNKNOWN_FOLDER if is_expanded else unquoted(word)


def read_settings(words: Sequence[str], *, known: Mapping[str, bool] | None = None) -> set[str]:
    """Return the settings that are on after the options of `set` or of a shell.

    >>> sorted(read_settings(["-euo", "pipefail"])), read_settings(["+e"], known={"errexit": True})
    (['errexit', 'pipefail', 'u'], set())
    """
    found = {name for name, is_on in (known or {}).items() if is_on}
    rest = list(words)
    while rest and rest[0].startswith(("-", "+")):
        option, rest = rest[0], rest[1:]
        for letter in "" if option.startswith("--") else option[1:]:
            name = rest.pop(0) if letter == "o" and rest else SETTINGS.get(letter, letter)
            found = found | {name} if option.startswith("-") else found - {name}
    return found


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
        if "n" in option and not option.startswith("--"):
            return ""  # it reads the script, and runs nothing
        if option.endswith("o"):
            rest = rest[1:]  # the name of a setting
        if "c" in option and not option.startswith("--"):
            rest = [word for word in rest if not word.startswith("-")] if option != "-c" else rest
            return unquoted(rest[0]) if rest else ""
    return ""


def unquoted(word: str) -> str:
    """Return a word as the shell passes it on; expansions stay as they are."""
    if len(word) > 1 and word[0] == word[-1] == "'":
        return word[1:-1]
    if len(word) > 1 and word[0] == word[-1] == '"':
        word = word[1:-1]
        for escaped in ('\\"', "\\$", "\\`", "\\\\"):
            word = word.replace(escaped, escaped[1])
    return word
