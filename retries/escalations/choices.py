"""Parse and check a person's answer to an escalation, and write it out for the agent."""

import re
from dataclasses import dataclass, replace
from typing import Any

from ledger.errors import Invalid
from ledger.instructions import CONTROL
from ledger.secrets.redaction import stripped
from retries.escalations import response_schema
from retries.states import TEXT_ANSWERS, Answer, Dependents

FIX_LENGTH = 4000
NOTE_LENGTH = 2000
# the property of a response schema that takes the text of an answer
INSTRUCTION = "instruction"
ANSWER_LINE = re.compile(r"(retry|skip|abort|accept|allow|deny)|(fix|answer|deny|grant):\s*(\S.*)")


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer: its action, its text, the values that a question asks for, and what happens to
    the dependents of a skipped task."""

    action: Answer
    fix: str = ""
    note: str = ""
    dependents: str = Dependents.CONTINUE
    response: dict[str, Any] | None = None


def parse(text: str) -> Choice:
    """Parse an answer on one line.

    It is `retry`, `skip`, `abort`, `fix: <instruction>` or, to a question, `answer: <words>`, or
    `accept` for a task that is done without proof. A permission request takes `allow`, `deny` or
    `deny: <what to do instead>`, and a task that waits for a budget `grant: <amount>`.
    """
    lines = text.splitlines()
    match = ANSWER_LINE.fullmatch(lines[0].strip()) if len(lines) == 1 else None
    if match is None:
        raise Invalid(
            "/text",
            "Answer with 'retry', 'skip', 'abort' or 'fix: <what to do instead>', on one line. "
            "A question also takes 'answer: <words>'. A permission request takes 'allow' or "
            "'deny: <what to do instead>', and a task that waits for a budget "
            "'grant: <amount>', such as 'grant: 500000 tokens'.",
        )
    return Choice(Answer(match[1] or match[2]), fix=(match[3] or "").strip())


def check(choice: Choice) -> Choice:
    if choice.action in TEXT_ANSWERS:
        if choice.action in (Answer.FIX, Answer.GRANT):
            require_text(choice)
        if len(choice.fix.strip()) > FIX_LENGTH:
            raise Invalid(
                "/instruction",
                f"{TEXT_ANSWERS[choice.action]} has at most {FIX_LENGTH} characters.",
            )
        check_text(choice.fix, "/instruction")
    elif choice.fix.strip():
        raise Invalid(
            "/instruction",
            f"Only 'fix', 'deny' and 'grant' take an instruction; '{choice.action}' takes none.",
        )
    if choice.response and choice.action not in (Answer.ANSWER, Answer.ALLOW):
        raise Invalid("/response", f"Only 'answer' takes values; '{choice.action}' takes none.")
    if len(choice.note) > NOTE_LENGTH:
        raise Invalid("/note", f"A note has at most {NOTE_LENGTH} characters.")
    check_dependents(choice.dependents)
    if choice.action != Answer.SKIP and choice.dependents != Dependents.CONTINUE:
        raise Invalid("/dependents", f"Only 'skip' takes dependents; '{choice.action}' takes none.")
    return choice


def check_dependents(choice: str) -> str:
    """Return what happens to dependents, by default `continue`; raise Invalid."""
    if choice and choice not in Dependents.values:
        raise Invalid("/dependents", "Set dependents to 'continue', 'block' or 'skip'.")
    return str(choice or Dependents.CONTINUE)


def complete(choice: Choice, schema: dict[str, Any] | None) -> Choice:
    """Check the values of an answer to a question and append them to its text."""
    # The text is also the value of the property `instruction`, if the question has it.
    text, values = choice.fix.strip(), dict(choice.response or {})
    if schema is None:
        if values:
            raise Invalid("/response", "The question asks for no values: answer with text.")
        return require_text(choice)
    if text and INSTRUCTION in schema.get("properties", {}):
        values = {INSTRUCTION: text} | values
    response_schema.check(schema, values)
    fix = compose_text(text, values)
    return require_text(check(replace(choice, fix=fix, response=values or None)))


def check_response(choice: Choice, schema: dict[str, Any] | None) -> None:
    if schema is not None:
        response_schema.check(schema, choice.response or {})
    elif choice.response:
        raise Invalid("/response", "The call asks for no values: allow or deny it.")


def compose_text(text: str, values: dict[str, Any]) -> str:
    others = {name: value for name, value in values.items() if name != INSTRUCTION}
    instruction = text or str(values.get(INSTRUCTION, "")).strip()
    return "\n".join(part for part in (instruction, response_schema.format_values(others)) if part)


def require_text(choice: Choice) -> Choice:
    if not stripped(choice.fix).strip():
        raise Invalid(
            "/instruction",
            f"{TEXT_ANSWERS[choice.action]} needs an amount, such as '500000 tokens' or '5 USD'."
            if choice.action == Answer.GRANT
            else f"{TEXT_ANSWERS[choice.action]} needs text: say what the agent should do.",
        )
    return choice


def check_text(text: str, pointer: str) -> None:
    if found := CONTROL.search(text):
        raise Invalid(
            pointer,
            f"The text has the control character U+{ord(found[0]):04X} at {found.start()}; "
            "only tab and newline are allowed.",
        )
