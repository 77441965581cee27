"""The verbs of instructions: send again, acknowledge and cancel."""

from collections import defaultdict
from dataclasses import replace
from functools import partial
from uuid import UUID

from django.db.models import F, Q

from ledger import agents, instructions
from ledger.instructions import Expect
from ledger.journal import Stamp
from ledger.models import Agent, Instruction
from ledger.states import InstructionState
from ledger.tokens import TrustedCaller
from retries import reminders
from retries.escalations import answering
from retries.verbs.verb import Left, Options, Rows, Verb, count_as, note_of

UNSETTLED = Q(state=InstructionState.QUEUED) | Q(state=InstructionState.DELIVERED)
FAILED = Q(state=InstructionState.FAILED)
# an instruction of a rule is about what its own agent did
UNRECEIVED = Q(state=InstructionState.QUEUED, first_delivered_at=None, rule=None)
# with a retry left
WAITS = Q(state=InstructionState.DELIVERED, tracked=True, retry_count__lt=F("max_retries"))


def describe_instructions(ids: list[UUID]) -> dict[UUID, Left]:
    rows = Instruction.objects.filter(pk__in=ids).order_by("id")
    return {
        id: Left("The same text is pending already")
        if state == InstructionState.FAILED
        else Left(f"State is now “{state}”")
        for id, state in rows.values_list("pk", "state")
    }


def send_again(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, UUID]:
    """Send instructions again; return the new id by each old id."""
    note, channel = note_of(options), options.get("channel", "page")
    sent = {row["id"]: row["id"] for row in reminders.send_again(ids, note=note, stamp=stamp)}
    return sent | answering.send_failed_again(ids, channel=channel, note=note, stamp=stamp)


def tell_sent_again(sent: dict[UUID, UUID], ids: list[UUID], options: Options) -> str:
    name = Instruction.objects.select_related("agent").get(pk=ids[0]).agent.name
    if sent[ids[0]] == ids[0]:
        return f"Queued again, at the front. {name} gets it if it checks in again."
    text = "Sent again as a new instruction, at the front of the queue."
    return f"{text} {name} gets it if it checks in."


def explain_unsent(id: UUID) -> str:
    if Instruction.objects.get(pk=id).state == InstructionState.FAILED:
        return (
            "Nothing changed. The same text is pending already, or its escalation was just "
            "answered."
        )
    return "Nothing changed. It is not waiting for an acknowledgment, or has no retries left."


def explain_settled(id: UUID) -> str:
    return f"Nothing changed. {instructions.describe_settled(Instruction.objects.get(pk=id))}"


def group_by_project(ids: list[UUID]) -> dict[UUID, list[UUID]]:
    # The functions that take these ids act within one project.
    found = defaultdict(list)
    rows = Instruction.objects.filter(pk__in=ids).order_by("id")
    for id, project_id in rows.values_list("pk", "project_id"):
        found[project_id].append(id)
    return found


def acknowledge(ids: list[UUID], options: Options, stamp: Stamp) -> list[UUID]:
    open = Instruction.objects.awaiting_ack().filter(pk__in=ids)
    done = []
    for project_id, some in group_by_project(list(open.values_list("pk", flat=True))).items():
        caller = TrustedCaller(stamp.actor, project_id=project_id, request_id=stamp.request_id)
        done += [row["id"] for row in instructions.acknowledge(some, caller=caller) if row]
    return done


def cancel(ids: list[UUID], options: Options, stamp: Stamp) -> set[UUID]:
    return {
        row["id"]
        for project_id, some in group_by_project(ids).items()
        for row in instructions.cancel(
            some, project_id=project_id, note=note_of(options), stamp=stamp
        )
    }


def fit_to_agent(rows: Rows, options: Options) -> Rows:
    return rows.filter(agent=options["of"] or None)


def hand_over(id: UUID, options: Options, stamp: Stamp) -> Left | None:
    row = Instruction.objects.select_for_update().filter(UNRECEIVED, pk=id).first()
    if row is None:
        return Left("It was delivered meanwhile")
    to = Agent.objects.filter(project=row.project_id, name=options["agent"]).first()
    if to is None:
        return Left("Its project has no agent of this name")
    note = f"Handed over to {to.name}. {note_of(options)}".strip()
    instructions.cancel([id], project_id=row.project_id, note=note, stamp=stamp)
    instructions.send(
        to,
        row.content,
        tracked=row.tracked,
        max_retries=row.max_retries,
        expect=Expect(row.expect_type, row.expect_match) if row.expect_type else None,
        on_failed=row.on_failed,
        priority=row.position < 0,
        task=row.task_id,
        stamp=stamp,
    )
    return None


instruction_verb = partial(Verb, model=Instruction, describe=describe_instructions)
SEND_AGAIN = instruction_verb(
    name="instruction.send_again",
    where=WAITS | FAILED,
    run=send_again,
    words=("Send again", "Sending again", "sent again"),
    icon="undo",
    slug="send-again",
    key="r",
    said=tell_sent_again,
    unchanged=explain_unsent,
    find_shown=lambda sent, id: sent[id],
    admin="Send again: a reminder now, or a new instruction if given up",
)
ACKNOWLEDGE = instruction_verb(
    name="instruction.acknowledge",
    where=UNSETTLED & Q(tracked=True),
    run=acknowledge,
    words=("Mark as acknowledged", "", "acknowledged"),
    slug="acknowledge",
    said=lambda *told: "Marked as acknowledged. It will not be sent again.",
    unchanged=explain_settled,
    admin="Mark as acknowledged…",
    effects=count_as("instruction", "will count as acknowledged and not be sent again."),
)
CANCEL = instruction_verb(
    name="instruction.cancel",
    # a delivered plain one is over
    where=Q(state=InstructionState.QUEUED) | Q(state=InstructionState.DELIVERED, tracked=True),
    run=cancel,
    is_dangerous=True,
    words=("Cancel", "Cancelling", "cancelled"),
    icon="s-aborted",
    slug="withdraw",
    question="Cancel this instruction?",
    confirm="Cancel instruction",
    consequence="It is not delivered again, and Tenfour stops waiting for an acknowledgment.",
    said=lambda *told: "Cancelled. It will not be delivered again.",
    unchanged=explain_settled,
    admin="Cancel…",
    effects=count_as("instruction", "will not be delivered again."),
)
# where an agent is stopped; no list offers it
HAND_OVER = instruction_verb(
    name="instruction.hand_over",
    where=UNRECEIVED,
    takes={"of": str, "agent": agents.check_name},
    fit=fit_to_agent,
    each=hand_over,
    words=("Hand over", "Handing over", "handed over"),
    icon="n-agents",
)
LIST = (SEND_AGAIN, CANCEL)
VERBS = (*LIST, HAND_OVER)
ADMIN = (SEND_AGAIN, ACKNOWLEDGE, CANCEL)
# the button says whether the same instruction is queued or a new one
PAGE = (
    replace(SEND_AGAIN, where=WAITS, label="Send again now"),
    replace(SEND_AGAIN, where=FAILED),
    ACKNOWLEDGE,
    CANCEL,
)
