"""Tell a command about its attempt: by variables, files, and texts in its arguments."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tenfour.attempts.live_attempts import LiveAttempt

# In the arguments of a command.
PLACE = re.compile(r"\{(prompt|retry_context)\}")
# Linux refuses a longer argument, with its final NUL; other systems limit all of them together.
ARGUMENT_BYTES = 131_071


@contextmanager
def attempt_variables(attempt: LiveAttempt) -> Iterator[dict[str, str]]:
    """Yield variables for the command, some with names of files; deletes the files at the end."""
    with ExitStack() as files:
        yield {
            "TENFOUR_TASK": attempt.task.id,
            "TENFOUR_TASK_FILE": files.enter_context(_file(json.dumps(attempt.task.raw), ".json")),
            "TENFOUR_ATTEMPT": attempt.id,
            "TENFOUR_ATTEMPT_NUMBER": str(attempt.number),
            "TENFOUR_PROMPT_FILE": files.enter_context(_file(attempt.prompt, ".txt")),
            "TENFOUR_RETRY_CONTEXT_FILE": files.enter_context(_file(attempt.retry_context, ".xml")),
            # The command may write its tokens and its cost there.
            "TENFOUR_USAGE_FILE": files.enter_context(_file("", ".json")),
        }


def fill_placeholders(command: Sequence[str], attempt: LiveAttempt) -> list[str]:
    """Return the command with prompt and retry context filled in, each as one argument.

    In one pass: a placeholder inside a prompt is not replaced.
    """
    texts = {"prompt": attempt.prompt, "retry_context": attempt.retry_context}
    return [PLACE.sub(lambda place: texts[place[1]], argument) for argument in command]


def is_too_large(command: Sequence[str]) -> bool:
    """Return whether the system can't start a command with these arguments."""
    return any(len(argument.encode(errors="replace")) > ARGUMENT_BYTES for argument in command)


@contextmanager
def _file(text: str, suffix: str) -> Iterator[str]:
    """Yield the name of a file that only its owner can read: a task's data is private."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", errors="replace", prefix="tenfour-", suffix=suffix
    ) as file:
        file.write(text)
        file.flush()
        yield file.name
