"""The matchers of permission rules, and what rules decide about a tool call (pure).

A rule is a tool and a matcher:

- A shell tool: the words of a command, such as `npm test` or `git push origin *`. In an allow rule
  `*` is one plain word and `**`, at the end, any number of them. It may also be a whole line.
- A file tool: a glob inside the agent's folder, such as `src/**`. Hidden files, keys, and
  credentials match only where the rule spells their names. Whether a name is a symbolic link that
  leads out of the folder cannot be known on the server.
- WebFetch: one exact host, such as `https://docs.example.com/**`.
- Any other tool: no matcher, which means any input.

`decide` is the one function that weighs allow rules against deny rules.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from retries.permissions.calls import (
    EDIT_TOOLS,
    FILE_TOOLS,
    PATCH_TOOLS,
    SHELL_TOOLS,
    URL_TOOLS,
    ToolCall,
    is_known_patch,
)
from retries.permissions.loose_commands import find_commands
from retries.permissions.path_globs import (
    check_glob,
    check_url,
    find_parts,
    matches_glob,
    matches_host,
    matches_url,
    split_url,
)
from retries.permissions.shell_matchers import (
    AllowableLine,
    AllowedCommands,
    DeniedCommand,
    MatcherError,
    list_readings,
    propose_matcher,
    read_allow_matcher,
    read_allowable_line,
    read_deny_matcher,
)

Rule = tuple[str, str]
GLOB = frozenset("*?")
MATCHER_LENGTH = 2_000
# They run commands that Tenfour cannot read.
UNREAD_SHELLS = frozenset({"PowerShell", "REPL", "Monitor"})
# Whatever else a shell call has may change where or with which rights it runs.
SHELL_KEYS = frozenset(
    {"command", "cmd", "description", "justification", "timeout", "timeout_ms"}
    | {"run_in_background", "yield_time_ms", "max_output_tokens"}
)


class Verdict(StrEnum):
    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class Decision:
    """The rules' decision, with the positions of the deciding rules among those of its kind."""

    verdict: Verdict
    rules: tuple[int, ...] = ()


def decide(allow_rules: Sequence[Rule], deny_rules: Sequence[Rule], call: ToolCall) -> Decision:
    """Return the rules' decision about a call: a deny rule wins, and only rules ever allow it.

    Every command of a shell line needs an allow rule. A deny rule that cannot be read lets nothing
    be allowed.

    >>> call = ToolCall("Bash", {"command": "npm ci && npm test"}, "/srv/app")
    >>> decide([("Bash", "npm test"), ("Bash", "npm ci")], [], call).rules
    (1, 0)
    >>> decide([("Bash", "npm ci")], [("Bash", "npm test **")], call).verdict
    <Verdict.DENY: 'deny'>
    """
    try:
        denying = find_denying(deny_rules, call)
    except MatcherError:
        return Decision(Verdict.ASK)
    if denying is not None:
        return Decision(Verdict.DENY, (denying,))
    allowing = find_allowing(allow_rules, call)
    return Decision(Verdict.ALLOW, allowing) if allowing else Decision(Verdict.ASK)


def find_denying(rules: Sequence[Rule], call: ToolCall) -> int | None:
    """Return the position of the first rule that denies a call; raise MatcherError at a bad one."""
    request = Request(call)
    return next((at for at, rule in enumerate(rules) if denies(rule, request)), None)


def find_allowing(rules: Sequence[Rule], call: ToolCall) -> tuple[int, ...] | None:
    """Return the positions of the rules that together allow a call, each once; None if none do."""
    # Deny rules are not looked at: `decide` does that.
    request = Request(call)
    readable = [
        (at, matcher) for at, rule in enumerate(rules) if (matcher := read_rule(rule, call))
    ]
    for at, matcher in readable:
        if allows(matcher, request):
            return (at,)
    line = request.line
    if line is None or len(line.commands) == 1:
        return None
    found = []
    for position in range(len(line.commands)):
        each = next((at for at, rule in readable if allows_command(rule, line, position)), None)
        if each is None:
            return None
        found.append(each)
    return tuple(dict.fromkeys(found))


def matches(tool: str, matcher: str, call: ToolCall, *, allow: bool) -> bool:
    """Return whether one rule alone allows, or denies, a call; a bad matcher matches nothing."""
    try:
        if not allow:
            return denies((tool, matcher), Request(call))
        found = read_rule((tool, matcher), call)
        return found is not None and allows(found, Request(call))
    except MatcherError:
        return False


def allows_part(rule: Rule, call: ToolCall) -> bool:
    """Return whether an allow rule allows a call, or at least one command of its line."""
    found, request = read_rule(rule, call), Request(call)
    if found is None or allows(found, request):
        return found is not None
    line = request.line
    return line is not None and any(
        allows_command(found, line, at) for at in range(len(line.commands))
    )


def check_matcher(tool: str, matcher: str, *, allow: bool) -> None:
    """Raise MatcherError if no rule may have this matcher; its message says what to write."""
    (read_allow if allow else read_deny)(tool, matcher)


def propose(call: ToolCall) -> str | None:
    """Return the matcher of an allow rule for this call; None where no rule can allow it.

    >>> propose(ToolCall("Bash", {"command": "npm  test 2>&1"}, "/srv/app"))
    'npm test'
    """
    if call.command is not None:
        matcher = propose_matcher(call.command, call.folder) if is_plain_shell(call) else None
    elif call.tool in FILE_TOOLS:
        parts = find_parts(call.paths[0], call.folder) if len(call.paths) == 1 else None
        matcher = "/".join(parts) if parts else None
        if matcher and not GLOB.isdisjoint(matcher):
            matcher = None
    elif call.tool in URL_TOOLS:
        split = split_url(call.url or "")
        matcher = f"{split[0]}://{split[1]}/**" if split else None
    else:
        matcher = ""
    if matcher is None or not is_own_match(call, matcher):
        return None
    return matcher


def check_length(matcher: str) -> None:
    if len(matcher) > MATCHER_LENGTH:
        raise MatcherError(f"A matcher has at most {MATCHER_LENGTH} characters.")


def is_own_match(call: ToolCall, matcher: str) -> bool:
    try:
        check_matcher(call.tool, matcher, allow=True)
    except MatcherError:
        return False
    return matches(call.tool, matcher, call, allow=True)


# ---- how a call is read, at most once for many rules


@dataclass(slots=True)
class Request:
    """A call, with its command line read when a rule needs it."""

    call: ToolCall
    _line: list[AllowableLine | None] = field(default_factory=list)
    _readings: list[list[tuple[str, ...]]] = field(default_factory=list)

    @property
    def line(self) -> AllowableLine | None:
        if not self._line:
            command = self.call.command if is_plain_shell(self.call) else None
            self._line.append(read_allowable_line(command, self.call.folder) if command else None)
        return self._line[0]

    @property
    def readings(self) -> list[tuple[str, ...]]:
        # For deny rules, these are the words of each command that the line may run.
        if not self._readings:
            found = find_commands(self.call.command or "")
            readings = (words for each in found for words in list_readings(each))
            self._readings.append(list(dict.fromkeys(readings)))
        return self._readings[0]


def is_plain_shell(call: ToolCall) -> bool:
    """Return whether nothing in a shell call changes how its line runs, such as no sandbox."""
    return call.command is not None and call.input.keys() <= SHELL_KEYS


def is_same_tool(tool: str, call: ToolCall, *, allow: bool) -> bool:
    # All shell tools count as one tool. For a deny rule, so do all tools that change files.
    families = (SHELL_TOOLS,) if allow else (SHELL_TOOLS, EDIT_TOOLS)
    return tool == call.tool or any(tool in each and call.tool in each for each in families)


# ---- allow

Allowed = AllowedCommands | Callable[[ToolCall], bool]


@lru_cache(maxsize=4_096)
def read_allow(tool: str, matcher: str) -> Allowed:
    """Return an allow rule's matcher in a form that matches fast, or raise MatcherError."""
    check_length(matcher)
    if tool in SHELL_TOOLS:
        return read_allow_matcher(matcher)
    if tool in FILE_TOOLS:
        return read_glob(matcher)
    if tool in URL_TOOLS:
        if problem := check_url(matcher):
            raise MatcherError(problem)
        return lambda call: matches_url(matcher, call.url or "")
    if tool in UNREAD_SHELLS or not tool.strip():
        raise MatcherError(f"Tenfour cannot read what {tool or 'a tool without name'} runs.")
    if matcher:
        raise MatcherError(f"Leave the matcher of {tool} empty: a rule allows it with any input.")
    return lambda call: True


def read_glob(matcher: str) -> Callable[[ToolCall], bool]:
    if problem := check_glob(matcher):
        raise MatcherError(problem)
    names = matcher.split("/")
    return lambda call: (
        is_known_file_call(call)
        and all(
            (parts := find_parts(path, call.folder)) is not None
            and matches_glob(names, parts, allow=True)
            for path in call.paths
        )
    )


def is_known_file_call(call: ToolCall) -> bool:
    """Return whether a call reads and writes only the files among its paths."""
    if call.tool in PATCH_TOOLS and not is_known_patch(call.patch):
        return False
    # A search's own globs may lead out of the path that it names.
    globs = [str(call.input.get(key) or "") for key in ("pattern", "glob")]
    is_search = call.tool in ("Glob", "Grep")
    tested = globs[call.tool == "Grep" :] if is_search else []
    is_inside = all(
        not each.startswith(("/", "~", ".")) and "/." not in each and "\\" not in each
        for each in tested
    )
    return bool(call.paths) and is_inside


def read_rule(rule: Rule, call: ToolCall) -> Allowed | None:
    """Return an allow rule's matcher if it is valid and the rule's tool is the call's."""
    if not is_same_tool(rule[0], call, allow=True):
        return None
    try:
        return read_allow(*rule)
    except MatcherError:
        return None


def allows(matcher: Allowed, request: Request) -> bool:
    if isinstance(matcher, AllowedCommands):
        return request.line is not None and matcher.matches_line(request.line)
    return matcher(request.call)


def allows_command(matcher: Allowed, line: AllowableLine, at: int) -> bool:
    return isinstance(matcher, AllowedCommands) and matcher.matches_command(line, at)


# ---- deny


@lru_cache(maxsize=4_096)
def read_deny(tool: str, matcher: str) -> DeniedCommand | None:
    """Return a deny rule's command, None for other matchers, or raise MatcherError."""
    check_length(matcher)
    if not tool.strip():
        raise MatcherError("Name the tool.")
    if not matcher:
        return None  # any input
    if not matcher.isprintable():
        raise MatcherError("Write the matcher without line breaks and invisible characters.")
    if tool in SHELL_TOOLS:
        return read_deny_matcher(matcher)
    if tool in URL_TOOLS and not matcher.startswith(("https://", "http://")):
        raise MatcherError("Write a host, such as `https://*.example.com/**`.")
    if tool not in URL_TOOLS and tool not in FILE_TOOLS:
        raise MatcherError(f"Leave the matcher of {tool} empty: a rule denies it with any input.")
    return None


def denies(rule: Rule, request: Request) -> bool:
    """Return whether a rule denies a call; raise MatcherError if it cannot be read."""
    tool, matcher = rule
    call = request.call
    if not is_same_tool(tool, call, allow=False):
        return False
    denied = read_deny(tool, matcher)
    if not matcher:
        return True
    if denied is not None:
        return any(map(denied.matches, request.readings))
    if call.tool in URL_TOOLS:
        return matches_host(matcher, call.url or "")
    return denies_paths(matcher, call.paths, call.folder)


def denies_paths(matcher: str, paths: Iterable[str], folder: str) -> bool:
    """Return whether a glob matches a path as it is written, or relative to the folder.

    >>> denies_paths("**/.env*", ["/srv/app/web/.ENV.local"], "/srv/app")
    True
    """
    names = [name for name in matcher.split("/") if name not in ("", ".")]
    for path in paths:
        plain = path.replace("\\", "/")
        absolute = plain if plain.startswith("/") else f"{folder}/{plain}"
        below = resolve(absolute)
        own = resolve(folder)
        readings = [below, resolve(plain)]
        if below[: len(own)] == own and not matcher.startswith("/"):
            readings.append(below[len(own) :])
        if any(matches_glob(names, each, allow=False) for each in readings):
            return True
    return False


def resolve(path: str) -> tuple[str, ...]:
    found: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del found[-1:]
        elif name not in ("", "."):
            found.append(name)
    return tuple(found)
