"""Run a command, and fix its arguments between tries when it fails."""

from __future__ import annotations

import inspect
import re
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

from tenfour.command_fixing import Fix, fix_args
from tenfour.command_retries.cli_reports import Reports, Try, choose_reports
from tenfour.log import log
from tenfour.results import ChangedVerb, Err, Ok, Result
from tenfour.runs.programs import STOPPED, CommandStopped, Program, is_timeout

if TYPE_CHECKING:
    from tenfour.attempts.live_attempts import LiveAttempt
    from tenfour.client import Client

MAX_CLI_RETRIES = 3
# Words at the start of the arguments that say what a command does: `issue list`.
VERB_WORDS = 2
# A word of this form may name another command; 12, a path or a reference is an argument.
COMMAND_WORD = re.compile("[A-Za-z][A-Za-z_-]*")

NOT_REPEATED = "It was not repeated: it may have taken effect, and it is not idempotent."


class CommandLine(Protocol):
    """Runs a command: `Program`, or an object of your own."""

    def run(self, *args: str) -> Any:
        """Return the command's data; raises an exception if it fails."""

    def get_help(self) -> str:
        """Return the text that explains the commands."""


def run_cli(
    cli: CommandLine | str,
    args: Sequence[str],
    *,
    fix: Fix | None = None,
    confirm: Callable[[list[str]], bool] | None = None,
    idempotent: bool = True,
    verb_words: int = VERB_WORDS,
    queries: Sequence[str] | None = None,
    only_reads: bool = False,
    max_tries: int | None = None,
    on_try: Callable[[Try], object] | None = None,
    client: Client | None = None,
    attempt: LiveAttempt | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Result[Any]:
    """Return Ok with a command's data, or Err with the error of its last try.

    There are at most `max_tries`, by default MAX_CLI_RETRIES. `fix` corrects the arguments between
    tries; without it, or when it can't, the same ones run again. A fix that changes the verb, the
    first `verb_words` words, runs only if `confirm` says so, unless its verb is one of `queries` or
    the command `only_reads`; else the result is ChangedVerb. A command that is not `idempotent` is
    not repeated after a timeout.

    Each try is passed to `on_try`. With `client`, the command is a task of the token's agent, and
    each try is reported as an attempt. With `attempt`, the tries are the progress of an attempt
    that is live.
    """
    rules = Rules(
        fix,
        confirm,
        idempotent=idempotent,
        verb_words=verb_words,
        queries=queries or (),
        only_reads=only_reads,
        max_tries=max_tries,
        on_try=on_try,
    )
    program = Program(cli) if isinstance(cli, str) else cli
    reports = choose_reports(
        client, attempt, name_of(program), idempotent=idempotent, most_tries=max(rules.tries, 1)
    )
    return run_with_reports(program, list(args), rules, reports, should_stop)


async def run_cli_async(cli: CommandLine | str, args: Sequence[str], **options: Any) -> Result[Any]:
    """Like `run_cli`, for a coroutine: the command runs in a thread, and stops if it is cancelled.

    The functions that you pass run in that thread, too; `client` and `attempt` are those that
    block.
    """
    import asyncio
    from threading import Event

    is_unwanted = Event()
    asked = options.pop("should_stop", None) or (lambda: False)

    def should_stop() -> bool:
        return is_unwanted.is_set() or asked()

    try:
        return await asyncio.to_thread(run_cli, cli, args, should_stop=should_stop, **options)
    finally:
        is_unwanted.set()


@dataclass(frozen=True)
class Rules:
    """The limits on retries of a command.

    `is_confirmed` says that a person has confirmed the command: then no fix may change its verb.
    """

    fix: Fix | None = None
    confirm: Callable[[list[str]], bool] | None = None
    idempotent: bool = True
    verb_words: int = VERB_WORDS
    queries: Sequence[str] = ()
    only_reads: bool = False
    is_confirmed: bool = False
    max_tries: int | None = None
    on_try: Callable[[Try], object] | None = None

    def __post_init__(self) -> None:
        if self.max_tries is not None and self.max_tries < 0:
            raise ValueError("max_tries is 0 or more.")

    @property
    def tries(self) -> int:
        return MAX_CLI_RETRIES if self.max_tries is None else self.max_tries


def run_with_reports(
    cli: CommandLine,
    args: list[str],
    rules: Rules,
    reports: Reports,
    should_stop: Callable[[], bool] | None = None,
) -> Result[Any]:
    """Return the result of a command whose tries are reported."""

    def is_unwanted() -> bool:
        return reports.should_stop or (should_stop is not None and should_stop())

    with reports:
        result = _run_cli_with_retry(cli, args, rules, reports, is_unwanted)
        reports.close(result)
        return result


def _run_cli_with_retry(
    cli: CommandLine,
    args: list[str],
    rules: Rules,
    reports: Reports,
    should_stop: Callable[[], bool],
) -> Result[Any]:
    help: str | None = None
    for number in range(1, rules.tries + 1):
        reports.begin(args)
        result = _try_and_tell(cli, args, number, rules, reports, should_stop)
        match result:
            case Ok():
                return result
            case Err() if number == rules.tries or is_stopped(result, should_stop):
                return result
            case Err(error) if is_timeout(result.cause) and not rules.idempotent:
                return Err(f"{error}. {NOT_REPEATED}", cause=result.cause)
            case Err(error):
                help = read_help(cli) if help is None else help
                fixed = fix_args(rules.fix, args, error, help)
                if not may_run(fixed, instead_of=args, rules=rules):
                    return changed_verb(cli, fixed, error)
                args = fixed
    return Err("Max retries exceeded")


def _try_and_tell(
    cli: CommandLine,
    args: list[str],
    number: int,
    rules: Rules,
    reports: Reports,
    should_stop: Callable[[], bool],
) -> Result[Any]:
    began = time.monotonic()
    result = try_cli(cli, args, should_stop=should_stop)
    failed = result if isinstance(result, Err) else Err("")
    made = Try(
        number,
        tuple(args),
        failed.error if failed is result else None,
        time.monotonic() - began,
        is_timeout(failed.cause),
    )
    reports.add(made)
    if rules.on_try:
        rules.on_try(made)
    return result


def try_cli(
    cli: CommandLine, args: Sequence[str], *, should_stop: Callable[[], bool] = lambda: False
) -> Result[Any]:
    """Return the result of one execution of a command: Ok with its data, or Err."""
    try:
        if should_stop():
            raise CommandStopped("The command was stopped before it started.", STOPPED)
        if isinstance(cli, Program):
            return Ok(cli.run(*args, should_stop=should_stop))
        return Ok(resolve(cli.run(*args)))
    except Exception as error:
        log.warning("CLI failed: %s", error)
        return Err(str(error), cause=error)


def read_help(cli: CommandLine) -> str:
    """Return the program's help; empty if it can't be read."""
    try:
        return str(resolve(cli.get_help()))
    except Exception as error:
        log.warning("The help of the command line could not be read: %s", error)
        return ""


def resolve(value: Any) -> Any:
    """Return a value, or the result of a coroutine: a command line of your own may be async."""
    if not inspect.isawaitable(value):
        return value
    import asyncio

    async def wait() -> Any:
        return await value

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    # The caller is a plain function in a thread whose loop runs, as in a notebook.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, wait()).result()


def is_stopped(result: Err, should_stop: Callable[[], bool]) -> bool:
    return isinstance(result.cause, CommandStopped) or should_stop()


def may_run(fixed: list[str], *, instead_of: list[str], rules: Rules) -> bool:
    """Return whether a fix needs no confirmation, or was confirmed."""
    words = rules.verb_words
    if rules.is_confirmed:
        is_harmless = verb_of(fixed, words) == verb_of(instead_of, words)
    elif rules.only_reads or is_query(fixed, rules.queries):
        is_harmless = True
    else:
        # A declared query may only become another declared one.
        is_harmless = not is_query(instead_of, rules.queries) and keeps_verb(
            fixed, instead_of, words
        )
    return is_harmless or (rules.confirm is not None and rules.confirm(list(fixed)))


def is_query(args: Sequence[str], queries: Sequence[str]) -> bool:
    """Return whether a command's verb is one of those that only read, such as `issue view`."""
    verbs = [verb.split() for verb in queries]
    return any(list(args[: len(verb)]) == verb for verb in verbs)


def keeps_verb(fixed: Sequence[str], original: Sequence[str], words: int = VERB_WORDS) -> bool:
    """Return whether a fix does what the original command does.

    The first word must be the same. A later word counts as part of the verb where both commands
    have the same one, and where the fix has one that may name another command.

    >>> keeps_verb(["show", "12"], ["show", "12x"]), keeps_verb(["list"], ["list", "open"])
    (True, True)
    >>> keeps_verb(["issue", "delete"], ["issue", "list"]), keeps_verb(["list"], ["lst"])
    (False, False)
    """
    first = verb_of(original, 1)
    if verb_of(fixed, 1) != first:
        return False
    later = (verb_of(args, words)[len(first) :] for args in (fixed, original))
    for new, old in zip_longest(*later):
        if new != old:
            return new is None or not COMMAND_WORD.fullmatch(new)
    return True


def verb_of(args: Sequence[str], words: int = VERB_WORDS) -> tuple[str, ...]:
    """Return the arguments that say what a command does: its first words.

    Options before them belong to the verb, as they may have values that look like words.

    >>> verb_of(["issue", "list", "--state", "open"]), verb_of(["-C", "dir", "push", "--force"])
    (('issue', 'list'), ('-C', 'dir', 'push'))
    """
    start = 0
    while start < len(args) and args[start].startswith("-"):
        start += 1 if "=" in args[start] else 2
    end = start
    while end < min(start + words, len(args)) and not args[end].startswith("-"):
        end += 1
    return tuple(args[:end])


def changed_verb(cli: CommandLine, fixed: list[str], error: str) -> ChangedVerb:
    command = shlex.join([name_of(cli), *fixed])
    message = f"{error.rstrip('.')}. Another command might help, once it is confirmed: {command}"
    return ChangedVerb(message, args=tuple(fixed))


def name_of(cli: CommandLine) -> str:
    return cli.name if isinstance(cli, Program) else type(cli).__name__
