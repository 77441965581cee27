"""The verbs of standing instructions, which pages call rules."""

from functools import partial

from django.db.models import Q

from ledger.models import StandingInstruction
from ledger.standing_instructions import editing
from retries.verbs.verb import Verb, call, count_as

rule_verb = partial(
    Verb,
    model=StandingInstruction,
    unchanged=lambda id: "Nothing changed: the rule is already in that state.",
)
PAUSE = rule_verb(
    name="rule.pause",
    where=Q(retired_at=None, paused=False),
    run=call(editing.pause_rules, note=""),
    words=("Pause the rule", "", "paused"),
    icon="pause",
    slug="pause",
    key="P",
    undo="resume",
    said=lambda *told: "Paused. It sends nothing; what it has sent stays open.",
    admin="Pause: send nothing until it is resumed",
)
RESUME = rule_verb(
    name="rule.resume",
    where=Q(retired_at=None, paused=True),
    run=call(editing.resume_rules, note=""),
    words=("Switch on", "", "switched on"),
    icon="play",
    slug="resume",
    key="P",
    undo="pause",
    said=lambda *told: "The rule is on.",
    admin="Resume",
)
RETIRE = rule_verb(
    name="rule.retire",
    where=Q(retired_at=None),
    run=call(editing.retire_rules),
    words=("Retire rule", "", "retired"),
    icon="trash",
    slug="retire",
    question="Retire this rule permanently?",
    confirm="Retire rule",
    consequence="It never sends anything again, and its record stays.",
    said=lambda *told: "Retired. Its record stays.",
    admin="Retire…",
    effects=count_as("rule", "will end permanently."),
)
VERBS = (PAUSE, RESUME, RETIRE)
