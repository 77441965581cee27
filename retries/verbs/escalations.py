"""The verbs of escalations: for a selection in the inbox, and each answer in the admin."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import Q

from ledger.admin_pages.confirmation import list_effects
from ledger.errors import Invalid
from ledger.journal import Stamp
from ledger.models import Instruction, Task
from ledger.secrets.notes import clean_note
from ledger.values.text import counted, normalize_newlines
from retries.escalations import answering, assignment, choices, response_schema, snoozing
from retries.escalations.choices import Choice, check_dependents
from retries.models import Escalation
from retries.states import PERMISSION_ANSWERS, QUESTIONS, TEXT_ANSWERS, Answer, EscalationState
from retries.verbs.effects import describe_abort, describe_dependents
from retries.verbs.verb import Effects, Left, Options, Rows, Verb, count_as, note_of

OPEN = Q(state=EscalationState.OPEN)
# nothing is skipped, retried or aborted with a permission request
OF_NO_CALL = OPEN & Q(permission=None)
OF_CALL = OPEN & Q(permission__isnull=False)
FIELD_PREFIX = "response."  # of the fields that a question asks for


def check_choice(options: Mapping[str, Any], action: Answer | None = None) -> Options:
    """Return the answer in a form, or `action` with its fields; raise Invalid."""
    if action is None and options.get("action") not in Answer.values:
        raise Invalid("/action", f"Set action to one of: {', '.join(Answer.values)}.")
    takes_text = action is None or action in TEXT_ANSWERS
    takes_dependents = action in (None, Answer.SKIP)
    choice = choices.check(
        Choice(
            Answer(action or options["action"]),
            fix=normalize_newlines(str(options.get("fix", ""))) if takes_text else "",
            note=note_of(dict(options)),
            dependents=check_dependents(
                str(options.get("dependents") or "") if takes_dependents else ""
            ),
        )
    )
    return {
        "action": str(choice.action),
        "fix": choice.fix,
        "note": clean_note(choice.note),
        "dependents": str(choice.dependents),
    }


def check_answer(options: Mapping[str, Any]) -> Options:
    values = {
        name.removeprefix(FIELD_PREFIX): str(value)
        for name, value in options.items()
        if name.startswith(FIELD_PREFIX)
    }
    return check_choice(options, Answer.ANSWER) | {"response": values}


def answer(escalation_id: UUID, options: Options, stamp: Stamp) -> Left | None:
    values, schema = options.get("response"), None
    if values is not None:
        schema = Escalation.objects.get(pk=escalation_id).response_schema
    answering.answer(
        escalation_id,
        Choice(
            Answer(options["action"]),
            fix=options["fix"],
            note=note_of(options),
            dependents=options["dependents"],
            response=response_schema.parse_values(schema, values) if values and schema else None,
        ),
        among=Escalation.objects.all(),
        stamp=stamp,
        channel=options.get("channel", "page"),
    )
    return None


def fit_answer(rows: Rows, options: Options) -> Rows:
    # Only permission requests are allowed or denied.
    if options["action"] in PERMISSION_ANSWERS:
        rows = rows.exclude(permission=None)
        # what a call asks for must be read and answered individually
        return (
            rows.filter(response_schema__isnull=True) if options["action"] == Answer.ALLOW else rows
        )
    rows = rows.filter(permission=None)
    return rows.filter(reason__in=QUESTIONS) if options["action"] == Answer.ANSWER else rows


def read_until(text: str) -> str:
    try:
        assert datetime.fromisoformat(text).tzinfo
    except (ValueError, AssertionError):
        raise Invalid("/until", "Choose a time.") from None
    return text


def snooze(escalation_id: UUID, options: Options, stamp: Stamp) -> Left | None:
    until = datetime.fromisoformat(options["until"])
    snoozing.snooze(escalation_id, until, among=Escalation.objects.all(), stamp=stamp)
    return None


def assign(escalation_id: UUID, options: Options, stamp: Stamp) -> Left | None:
    user = options["user"] or None
    assignment.assign(escalation_id, user, among=Escalation.objects.all(), stamp=stamp)
    return None


ANSWER = Verb(
    name="escalation.answer",
    model=Escalation,
    where=OPEN,
    fit=fit_answer,
    check_all=check_choice,
    each=answer,
    batch=1,
    words=("Answer", "Answering", "answered"),
    icon="s-escalated",
    key="b",
)
SNOOZE = Verb(
    name="escalation.snooze",
    model=Escalation,
    where=OPEN,
    takes={"until": read_until},
    each=snooze,
    words=("Snooze", "Snoozing", "snoozed"),
    icon="snooze",
    key="h",
)
ASSIGN = Verb(
    name="escalation.assign",
    model=Escalation,
    where=OPEN,
    takes={"user": str},
    each=assign,
    words=("Assign", "Assigning", "assigned"),
    icon="person",
    key="m",
)


# ---- what an answer changes


def describe_attempts(attempts: str, text: str) -> Effects:
    def describe(rows: Rows, options: Options) -> list[str] | None:
        tasks, sent = count_subjects(rows)
        effects = list_effects(
            (tasks, f"{counted(tasks, 'task')} will get {attempts}."),
            (sent, f"{counted(sent, 'instruction')} will be sent again with {text}."),
        )
        return effects or None

    return describe


def describe_skip(rows: Rows, options: Options) -> list[str] | None:
    tasks, sent = count_subjects(rows)
    effects = [
        *list_effects(
            (tasks, f"{counted(tasks, 'task')} will be skipped."),
            (sent, f"{counted(sent, 'instruction')} will stay failed, and nothing is sent."),
        ),
        *describe_dependents(rows.exclude(task=None).values("task"), options["dependents"]),
    ]
    return effects or None


def describe_abort_answer(rows: Rows, options: Options) -> list[str] | None:
    # An abort stops the whole plan of an escalated task.
    plans = rows.exclude(task__plan=None).values("task__plan")
    number = plans.distinct().count()
    agents = rows.exclude(instruction=None).values("agent")
    of = counted(agents.distinct().count(), "agent")
    pending = Instruction.objects.filter(agent__in=agents).cancellable().count()
    tasks = Task.objects.filter(Q(plan__in=plans) | Q(pk__in=rows.values("task")))
    whole = (
        f"{counted(number, 'plan')} will be aborted with all {'its' if number == 1 else 'their'}"
    )
    answered, sent = count_subjects(rows)
    effects = [
        *list_effects((number, f"{whole} tasks.")),
        *describe_abort(tasks, answered=answered),
        *list_effects(
            (sent, f"{counted(sent, 'instruction')} will stay failed."),
            (pending, f"{counted(pending, 'pending instruction')} of {of} will be cancelled."),
        ),
    ]
    return effects or None


def count_subjects(rows: Rows) -> tuple[int, int]:
    return rows.exclude(task=None).count(), rows.exclude(instruction=None).count()


answer_verb = partial(Verb, model=Escalation, where=OF_NO_CALL, each=answer)
SKIP = answer_verb(
    name="escalation.skip",
    takes={"dependents": check_dependents},
    check_all=partial(check_choice, action=Answer.SKIP),
    batch=1,
    ends=True,
    words=("Skip", "Skipping", "skipped"),
    icon="s-skipped",
    key="s",
    admin="Skip: drop the instruction or the task",
    effects=describe_skip,
)
VERBS = (ANSWER, SNOOZE, ASSIGN, SKIP)
ADMIN = (
    answer_verb(
        name="escalation.answer_question",
        where=OPEN & Q(reason__in=QUESTIONS),
        takes={"fix": str},
        check_all=check_answer,
        words=("Answer", "", "answered"),
        admin="Answer: send the text to the agent or the checkpoint that asked",
        effects=count_as("question", "will be answered, and the asker continues."),
    ),
    answer_verb(
        name="escalation.fix",
        takes={"fix": str},
        check_all=partial(check_choice, action=Answer.FIX),
        words=("Fix", "", "answered"),
        admin="Fix: send the text",
        effects=describe_attempts("one more attempt", "your text"),
    ),
    answer_verb(
        name="escalation.retry",
        check_all=partial(check_choice, action=Answer.RETRY),
        words=("Retry", "", "answered"),
        admin="Retry: start over",
        effects=describe_attempts("a new round of attempts", "the same text"),
    ),
    SKIP,
    answer_verb(
        name="escalation.allow",
        where=OF_CALL & Q(response_schema__isnull=True),
        check_all=partial(check_choice, action=Answer.ALLOW),
        words=("Allow once", "", "answered"),
        admin="Allow once: the agent makes the call that it asks about",
        effects=count_as("call", "will be allowed once."),
    ),
    answer_verb(
        name="escalation.deny",
        where=OF_CALL,
        takes={"fix": str},
        check_all=partial(check_choice, action=Answer.DENY),
        words=("Deny", "", "answered"),
        admin="Deny: the agent reads the text instead of making the call",
        effects=count_as("call", "will be denied."),
    ),
    answer_verb(
        name="escalation.abort",
        check_all=partial(check_choice, action=Answer.ABORT),
        words=("Abort", "", "answered"),
        admin="Abort: cancel the agent's pending instructions, or abort the task's plan",
        effects=describe_abort_answer,
    ),
)
