"""The signs of risk in a tool call (pure).

A mark is a hint for the person who answers. No rule depends on one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ledger.secrets.patterns import FORMS, GROUPS
from retries.permissions.calls import URL_TOOLS, ToolCall
from retries.permissions.command_lines import UnreadableLine, read_line
from retries.permissions.loose_commands import SHELLS, FoundCommand, FoundWord, find_commands
from retries.permissions.path_globs import SECRET_ENDS, SECRET_NAMES, find_parts
from retries.permissions.shell_grammar import word_set

Span = tuple[int, int]

ADMINISTRATORS = frozenset({"sudo", "doas", "su", "pkexec", "runuser"})
DELETING = frozenset({"rm", "rmdir", "unlink", "shred", "wipe", "truncate", "srm"})
NETWORK = word_set("""
    curl wget http https aria2c nc ncat netcat socat telnet ftp sftp scp ssh rsync rclone lynx w3m
    dig nslookup host whois ping mail sendmail aws gcloud az gh
    """)
GIT_NETWORK = frozenset({"push", "fetch", "pull", "clone", "ls-remote", "remote", "submodule"})
SENDING = NETWORK - {"ping", "dig", "nslookup", "host", "whois"}
DOWNLOADING = frozenset({"curl", "wget", "http", "https", "aria2c", "lynx", "w3m"})
INTERPRETERS = frozenset(
    {"python", "python3", "node", "perl", "ruby", "php", "deno", "bun"} | SHELLS
)
EVALUATING = frozenset({"eval", "source", "."} | INTERPRETERS)
SUBSTITUTIONS = ("$(", "<(", "`")
# Behind these, an interpreter has its program, and what it is fed is data.
PROGRAM_OPTIONS = frozenset({"-c", "-e", "-m", "-n", "-p", "-r"})
INSTALLING = {
    "apt": ("install",),
    "apt-get": ("install",),
    "apk": ("add",),
    "brew": ("install",),
    "bun": ("add", "install", "x"),
    "bunx": (),
    "cargo": ("install", "add"),
    "composer": ("require", "install"),
    "conda": ("install",),
    "dnf": ("install",),
    "gem": ("install",),
    "go": ("install", "get"),
    "npm": ("install", "i", "ci", "add", "exec"),
    "npx": (),
    "pacman": ("-S",),
    "pip": ("install",),
    "pipx": ("install", "run"),
    "pnpm": ("install", "i", "add", "dlx"),
    "poetry": ("add", "install"),
    "uv": ("add", "sync", "pip"),
    "uvx": (),
    "yarn": ("add", "install", "dlx"),
    "yum": ("install",),
}
SECRET_FILES = frozenset({"credentials", "shadow", "known_hosts", "authorized_keys"} | SECRET_NAMES)
SECRET_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".docker"})
SECRET_HIDDEN = (".env", ".netrc", ".npmrc", ".pypirc", ".pgpass")
# Folders of devices that hold nothing.
HARMLESS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty"})


@dataclass(frozen=True, slots=True)
class Mark:
    """A hint with a sentence; the span is that of the risky words in the call's command."""

    kind: str
    text: str
    span: Span | None = None
    is_red: bool = False


def find_marks(call: ToolCall) -> list[Mark]:
    """Return the marks of a call, each kind and place once, in the order of the line.

    >>> call = ToolCall("Bash", {"command": "sudo rm -rf /var/x"}, "/srv/app")
    >>> [(each.kind, each.is_red) for each in find_marks(call)]
    [('sudo', True), ('delete', True), ('outside_folder', False)]
    """
    found = list(mark_line(call.command, call.folder) if call.command else mark_tool(call))
    marks = {(each.kind, each.text, each.span): each for each in found}
    return sorted(marks.values(), key=lambda each: each.span or (-1, -1))


def mark_tool(call: ToolCall) -> Iterator[Mark]:
    for path in call.paths:
        if find_parts(path, call.folder) is None:
            yield Mark("outside_folder", "The file is outside the folder.")
        if is_secret_path(path):
            yield Mark("secret", "The file usually holds secrets.", is_red=True)
    if call.tool in URL_TOOLS:
        yield Mark("network", "Reads an address on the network.")


def mark_line(line: str, folder: str) -> Iterator[Mark]:
    commands = find_commands(line)
    secrets = [*find_secrets(line), *find_secret_files(commands)]
    is_leaving = any(each.program in SENDING for each in commands)
    text = "A secret may leave this machine." if is_leaving else "The line uses a secret."
    yield from (Mark("secret", text, span, is_leaving) for span in secrets)
    is_downloading = any(each.program in DOWNLOADING for each in commands)
    for each in commands:
        yield from mark_command(each, folder)
        if is_downloading and is_running_input(each):
            yield Mark("download", "Runs what it downloads.", span_of(each.words[0]), is_red=True)
    try:
        read_line(line)
    except UnreadableLine:
        yield Mark("unreadable", "Tenfour can't read this line fully.")


def mark_command(command: FoundCommand, folder: str) -> Iterator[Mark]:
    program, span = command.program, span_of(command.words[0])
    outside = [word for word in (*command.words[1:], *command.files) if is_outside(word, folder)]
    if program in ADMINISTRATORS:
        yield Mark("sudo", "Runs with an administrator's rights.", span, is_red=True)
    if is_deleting(command):
        text = "Deletes files outside the folder." if outside else "Deletes files."
        yield Mark("delete", text, span, is_red=bool(outside))
    if program in NETWORK or (program == "git" and find_subcommand(command) in GIT_NETWORK):
        yield Mark("network", "Uses the network.", span)
    if is_installing(command):
        yield Mark("install", "Installs packages, whose scripts may run.", span)
    if program == "git":
        yield from mark_history(command)
    for word in outside:
        yield Mark("outside_folder", "Names a place outside the folder.", span_of(word))


def is_deleting(command: FoundCommand) -> bool:
    words = [word.text for word in command.words[1:]]
    if command.program in ("find", "fd"):
        return "-delete" in words
    is_git = command.program == "git" and find_subcommand(command) in ("clean", "rm")
    return is_git or command.program in DELETING


def is_running_input(command: FoundCommand) -> bool:
    """Return whether a command runs what it is fed, or what a substitution prints.

    >>> lines = "curl x | sh", "curl x | sudo bash -s y", "curl x | python -m json.tool"
    >>> [any(map(is_running_input, find_commands(line))) for line in lines]
    [True, True, False]
    """
    words = [word.text for word in command.words[1:]]
    is_fed = command.is_fed and command.program in INTERPRETERS
    if is_fed and ("-s" in words or words[:1] == ["-"] or not any(map(is_program, words))):
        return True
    is_evaluating = command.program in EVALUATING
    return is_evaluating and any(each in word for word in words for each in SUBSTITUTIONS)


def is_program(word: str) -> bool:
    return word in PROGRAM_OPTIONS or not word.startswith("-")


def is_installing(command: FoundCommand) -> bool:
    if command.program not in INSTALLING:
        return False
    wanted = INSTALLING[command.program]
    words = [word.text for word in command.words[1:4]]
    return not wanted or any(each in words for each in wanted)


def find_subcommand(command: FoundCommand) -> str:
    words = [word.text for word in command.words[1:]]
    while words and words[0].startswith("-"):
        words = words[1 + (words[0] in ("-C", "-c", "--git-dir", "--work-tree")) :]
    return words[0] if words else ""


def mark_history(command: FoundCommand) -> Iterator[Mark]:
    subcommand = find_subcommand(command)
    words = command.words[1:]
    span = (command.words[0].start, command.words[-1].end)
    if subcommand == "push":
        forcing = [word for word in words if is_forcing(word.text)]
        for word in forcing:
            yield Mark("history", "Rewrites shared history.", span_of(word), is_red=True)
    elif subcommand in ("filter-branch", "filter-repo"):
        yield Mark("history", "Rewrites the whole history.", span, is_red=True)
    elif subcommand == "rebase" or (subcommand == "commit" and has_word(words, "--amend")):
        yield Mark("history", "Rewrites commits.", span)
    elif subcommand == "reset" and has_word(words, "--hard"):
        yield Mark("history", "Drops changes that are not committed.", span)
    elif subcommand in ("reflog", "gc", "update-ref"):
        yield Mark("history", "May permanently drop commits.", span)


def is_forcing(word: str) -> bool:
    """Return whether a word of `git push` overwrites or deletes what others have.

    >>> [is_forcing(word) for word in ("-uf", "--force-with-lease=main", "+main", ":main", "main")]
    [True, True, True, True, False]
    """
    is_letters = word.startswith("-") and not word.startswith("--") and bool(set("fd") & set(word))
    return is_letters or word.startswith(("--force", "--mirror", "--delete", "+", ":"))


def has_word(words: tuple[FoundWord, ...], wanted: str) -> bool:
    return any(word.text == wanted for word in words)


def is_outside(word: FoundWord, folder: str) -> bool:
    path = word.text.rpartition("=")[2] if word.text.startswith("-") else word.text
    is_path = path.startswith(("/", "~", "..", "$HOME", "${HOME}")) or "/../" in path
    if not is_path or path in HARMLESS or path == "..." or path.startswith("../..."):
        return False
    return path[0] in "$~" or find_parts(path, folder) is None


def span_of(word: FoundWord) -> Span:
    return word.start, word.end


# ---- secrets: only where they are, never what they are


def find_secrets(line: str) -> Iterator[Span]:
    lower = line.lower()
    for form in FORMS:
        if any(need in lower for need in form.needs) or (form.gate and form.gate.search(lower)):
            for match in form.pattern.finditer(line):
                if not form.accepts or form.accepts(match):
                    groups = match.groupdict()
                    yield match.span(next((name for name in GROUPS if groups.get(name)), 0))


def find_secret_files(commands: list[FoundCommand]) -> Iterator[Span]:
    for command in commands:
        for word in (*command.words, *command.files):
            if is_secret_path(word.text):
                yield span_of(word)


def is_secret_path(path: str) -> bool:
    """Return whether a file usually holds secrets.

    >>> [is_secret_path(path) for path in ("web/.env.local", "~/.ssh/config", "src/env.py")]
    [True, True, False]
    """
    names = path.replace("\\", "/").replace("=", "/").replace("@", "/").casefold().split("/")
    last = names[-1]
    is_example = last.endswith((".example", ".sample", ".template"))
    return not is_example and (
        last in SECRET_FILES
        or last.startswith(SECRET_HIDDEN)
        or last.endswith(SECRET_ENDS)
        or not SECRET_FOLDERS.isdisjoint(names)
    )
