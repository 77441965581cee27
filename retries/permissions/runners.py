"""Programs that run others, and where the matcher of an allow rule may have a placeholder (pure).

A placeholder stands for words that an agent chooses. It must not stand where a program takes the
name of another program, a script, a file with settings, or an address.
"""

from collections.abc import Sequence

from retries.permissions.shell_grammar import word_set

PLACEHOLDERS = frozenset({"*", "**"})

# Whatever follows these is, or decides, what is run.
RUNNERS = word_set("""
    sh bash dash zsh ksh mksh ash fish csh tcsh rbash busybox toybox pwsh powershell cmd wsl
    eval exec command builtin source . trap alias unalias hash enable coproc repeat bind complete
    read mapfile readarray export declare typeset local readonly set shopt setopt let test printf
    env sudo doas su runuser pkexec setpriv xargs parallel nohup time timeout nice ionice chrt
    taskset setsid stdbuf unbuffer script watch entr expect flock chronic setarch linux32 linux64
    chroot unshare nsenter firejail bwrap proot fakeroot systemd-run start-stop-daemon run-parts
    xvfb-run dbus-run-session strace ltrace gdb lldb valgrind perf hyperfine at batch crontab
    ssh scp sftp rsync ftp telnet nc ncat netcat socat curl wget http https aria2c lynx w3m
    dig nslookup host whois ping openssl gpg mail sendmail rclone
    vi vim nvim view ex ed emacs nano less more man info pager
    tmux screen osascript open xdg-open launchctl systemctl service schtasks
    ansible ansible-playbook terraform vagrant nix nix-shell nix-env guix brew apt apt-get aptitude
    dnf yum apk pacman zypper snap flatpak gem cpan
    direnv dotenv asdf mise nvm pyenv rbenv op doppler aws-vault cross-env env-cmd concurrently
    npm-run-all run-s run-p nodemon pm2 forever
    psql mysql mariadb sqlite3 mongo mongosh redis-cli
    unzip 7z 7za cpio bsdtar patch ln mount dd install split rundll32 mshta cscript wscript
    node-gyp create-react-app yo cookiecutter rails artisan
    """)
# Of these, only the named subcommands may be followed by placeholders.
SUBCOMMANDS = {
    "aws": frozenset(),
    "az": frozenset(),
    "bun": frozenset({"test"}),
    "bundle": frozenset({"list", "show", "check"}),
    "cargo": word_set("build test check clippy fmt doc tree bench"),
    "composer": frozenset({"show", "validate"}),
    "conda": frozenset({"list"}),
    "deno": frozenset({"check", "fmt", "lint"}),
    "docker": word_set("ps logs images inspect port stats"),
    "dotnet": frozenset({"build", "test", "format"}),
    "gcloud": frozenset(),
    "gh": frozenset(),
    "git": word_set(
        "add branch blame cat-file checkout cherry-pick commit describe diff fetch log ls-files"
        " ls-tree merge merge-base mv pull push reset restore rev-list rev-parse revert rm"
        " shortlog show stash status switch tag"
    ),
    "go": word_set("build test vet fmt list doc"),
    "helm": frozenset({"list", "status", "history"}),
    "kubectl": word_set("get describe logs explain top"),
    "lerna": frozenset(),
    "npm": word_set("run run-script test t ls list outdated why explain"),
    "manage.py": word_set("test check migrate makemigrations showmigrations"),
    "nx": frozenset(),
    "pip": word_set("show list freeze check"),
    "pipenv": frozenset({"check", "graph"}),
    "pipx": frozenset({"list"}),
    "pnpm": word_set("run test t ls list outdated why"),
    "podman": word_set("ps logs images inspect port stats"),
    "poetry": frozenset({"show", "check"}),
    "turbo": frozenset(),
    "uv": frozenset({"tree"}),
    "yarn": frozenset({"test", "why", "list"}),
}
# Behind these words stands a program, which is looked at as if it stood alone.
LAUNCHED = (
    ("npx",),
    ("bunx",),
    ("pnpm", "exec"),
    ("yarn", "run"),
    ("yarn", "exec"),
    ("bundle", "exec"),
    ("poetry", "run"),
    ("pipenv", "run"),
    ("uv", "run"),
    ("python", "-m"),
    ("py", "-m"),
)
SCRIPTS = frozenset({"manage.py", "artisan"})
# Behind these stands a script, or what to do: a literal word.
WITH_LITERAL = word_set(
    "python py node deno ruby perl php lua tsx ts-node java rscript sed gsed awk gawk mawk nawk"
    " jq yq"
)
# Modules of Python that run what is named behind them.
RUNNING_MODULES = word_set(
    "code cprofile ensurepip idlelib pdb profile runpy timeit trace venv zipapp doctest"
)
# Archives: what is listed or written, but not what is taken out of one.
TAR_LETTERS = frozenset("ctvfzjJ")
# Options that take no value, or a text that nothing runs; a placeholder may follow them.
# No other option may stand directly in front of one.
SHORT_OPTIONS = {
    "cat": "nAbEsTv",
    "cp": "fnpv",
    "cut": "sz",
    "diff": "uqwbBNy",
    "egrep": "abcEFhHiIlLnoqrRsvwxP",
    "fgrep": "abcEFhHiIlLnoqrRsvwxP",
    "grep": "abcEFhHiIlLnoqrRsvwxP",
    "head": "qv",
    "ls": "1aAdFghHlLrRsStu",
    "mkdir": "pv",
    "mv": "fnv",
    "pytest": "qsvxlk",
    "rg": "acFhHiIlnNoqsSuvwx",
    "rm": "dfrRv",
    "rmdir": "pv",
    "sort": "bdfgnruV",
    "tail": "fqv",
    "touch": "acm",
    "tree": "adf",
    "wc": "clLmw",
}
GIT_OPTIONS = {
    "add": frozenset({"-A", "-u", "-N", "-v", "--all", "--update"}),
    "branch": frozenset({"-a", "-r", "-v", "-vv", "--list"}),
    "checkout": frozenset({"-b"}),
    "commit": frozenset({"-m", "-am", "--message"}),
    "diff": frozenset({"--stat", "--cached", "--staged", "--name-only", "--name-status", "-w"}),
    "log": frozenset({"--oneline", "--stat", "--graph", "--decorate", "-p"}),
    "push": frozenset({"-u", "--set-upstream"}),
    "show": frozenset({"--stat", "--name-only", "--oneline"}),
    "switch": frozenset({"-c"}),
    "tag": frozenset({"-l", "--list"}),
}
LONG_OPTIONS = frozenset(
    {"--", "--quiet", "--verbose", "--silent", "--fix", "--check", "--strict", "--release"}
)
WITH_COUNT = frozenset({"head", "tail"})
FIND_OPTIONS = frozenset({"-name", "-iname", "-type", "-path", "-ipath", "-maxdepth", "-mindepth"})


def find_program(word: str) -> str:
    """Return the name of a program without its folder and version.

    >>> find_program("/usr/bin/python3.11"), find_program("7z"), find_program("Bash.EXE")
    ('python', '7z', 'bash')
    """
    name = word.rpartition("/")[2].casefold().removesuffix(".exe").removesuffix(".cmd")
    stem = name.rstrip("0123456789.-")
    return stem if stem in WITH_LITERAL or stem in SUBCOMMANDS or stem in RUNNERS else name


def check_placeholders(words: Sequence[str]) -> str:
    """Return what is wrong with the placeholders of a command; empty if nothing is.

    >>> check_placeholders(["npx", "eslint", "**"]), check_placeholders(["npm", "test"])
    ('', '')
    >>> check_placeholders(["bash", "*"])
    '`bash` can run any command: name the whole command, without `*` and `**`.'
    """
    if PLACEHOLDERS.isdisjoint(words):
        return ""
    if words[0] in PLACEHOLDERS:
        return "Name the program: `*` and `**` cannot stand for it."
    if "**" in words[:-1]:
        return "Write `**` as the last word only; `*` stands for one word."
    return check_program(words)


def check_program(words: Sequence[str]) -> str:
    program, rest = find_program(words[0]), words[1:]
    if launched := find_launched(program, rest):
        return check_launched(launched, rest[len(launched) - 1 :])
    if program in RUNNERS:
        return f"`{words[0]}` can run any command: name the whole command, without `*` and `**`."
    if program in SUBCOMMANDS:
        return check_subcommand(words[0], program, rest)
    if program in WITH_LITERAL and (not rest or rest[0] in PLACEHOLDERS):
        return f"Name what `{words[0]}` is to do: `*` and `**` cannot stand directly behind it."
    if program in WITH_LITERAL and find_program(rest[0]) in SCRIPTS:
        return check_program(rest)
    if program in WITH_LITERAL and rest[0].startswith("-"):
        return check_script_options(words[0], program, rest)
    if program == "tar" and not TAR_LETTERS.issuperset(rest[0].removeprefix("-")):
        return "Begin with `tar tf`, `tar czf` or the like: other options of `tar` run programs."
    return check_options(program, "", rest)


def check_launched(launched: Sequence[str], rest: Sequence[str]) -> str:
    name = " ".join(launched)
    if not rest or rest[0] in PLACEHOLDERS or rest[0].startswith("-"):
        return f"Name the program behind `{name}`: `*` and `**` cannot stand for it."
    if "/" in rest[0] or ":" in rest[0] or rest[0].casefold() in RUNNING_MODULES:
        return f"`{name} {rest[0]}` can run anything: name the whole command."
    return check_program(rest)


def check_subcommand(written: str, program: str, rest: Sequence[str]) -> str:
    subcommand = rest[0]
    if subcommand not in SUBCOMMANDS[program]:
        known = ", ".join(sorted(SUBCOMMANDS[program])) or "no command"
        return (
            f"`{written} {subcommand}` can run or install other programs: name the whole command."
            f" With `{written}`, `*` and `**` may follow {known}."
        )
    return check_options(program, subcommand, rest[1:])


def check_script_options(written: str, program: str, rest: Sequence[str]) -> str:
    # Of interpreters with options, only `sed -n SCRIPT` is known.
    is_known = program in ("sed", "gsed") and rest[0] in ("-n", "-E", "-r")
    is_known = is_known or (program in ("jq", "yq") and rest[0] in ("-r", "-c", "-e", "-S"))
    if is_known and len(rest) > 1 and rest[1] not in PLACEHOLDERS and rest[1][0] != "-":
        return check_options(program, "", rest[1:])
    return f"`{written} {rest[0]}` can run any code: name the whole command."


def check_options(program: str, subcommand: str, rest: Sequence[str]) -> str:
    before = ""
    for word in rest:
        if word in PLACEHOLDERS and is_open_option(program, subcommand, before):
            return (
                f"Name the word behind `{before}`: Tenfour does not know what `{program}` does"
                " with it."
            )
        before = word
    return ""


def is_open_option(program: str, subcommand: str, option: str) -> bool:
    """Return whether the next word may be an option's value whose effect is unknown."""
    if option[:1] not in ("-", "+") or option in LONG_OPTIONS:
        return False
    if option.startswith("--") and "=" in option:
        return False
    if program == "find":
        return option not in FIND_OPTIONS
    if program == "git":
        return option not in GIT_OPTIONS.get(subcommand, ())
    if program in WITH_COUNT and option[1:].isdecimal():
        return False
    letters = SHORT_OPTIONS.get(program, "")
    return option == "-" or option.startswith("--") or not set(option[1:]) <= set(letters)


def find_launched(program: str, rest: Sequence[str]) -> tuple[str, ...]:
    words = (program, *rest)
    return next((each for each in LAUNCHED if words[: len(each)] == each), ())
