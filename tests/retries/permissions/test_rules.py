"""Permission rules: what they decide, and who may make them."""

from datetime import timedelta

import pytest

from ledger.errors import Invalid, InvalidTransition
from ledger.journal import Stamp
from ledger.models import Agent, Event
from retries.models import Escalation, PermissionRule
from retries.permissions import rules
from retries.permissions.calls import ToolCall
from retries.states import Answer, PermissionState
from tests.factories import MINUTE, NOW, make_agent, make_project
from tests.retries.escalations.test_answering import MARA, answer
from tests.retries.permissions.asking import FOLDER, ask, escalation_of, make_rule

pytestmark = pytest.mark.django_db
P = PermissionState


def test_a_rule_allows_at_once_and_is_journaled(agent: Agent) -> None:
    rule = make_rule(agent, "npm test")
    request = ask(agent, "npm test", now=NOW + MINUTE)
    assert request.state == P.ALLOWED and request.rule_ids == [rule.pk]
    assert not Escalation.objects.exists()
    rule.refresh_from_db()
    assert (rule.hits, rule.last_used_at) == (1, NOW + MINUTE)
    assert rule.expires_at == NOW + MINUTE + rules.UNUSED
    event = Event.objects.get(kind="permission.allowed")
    assert event.subject_id == request.pk and event.data["rules"] == [str(rule.pk)]


def test_every_command_of_a_line_needs_a_rule(agent: Agent) -> None:
    test, lint = make_rule(agent, "npm test"), make_rule(agent, "npm run lint")
    assert ask(agent, "npm run lint && npm test").rule_ids == [lint.pk, test.pk]
    assert ask(agent, "npm test && rm -rf build").state == P.WAITING
    assert ask(agent, "npm test $(rm -rf build)").state == P.WAITING
    assert ask(agent, "npm test > /etc/hosts").state == P.WAITING


def test_deny_beats_allow_and_tells_why(agent: Agent) -> None:
    make_rule(agent, "git push origin *")
    deny = make_rule(agent, "git push origin main", allows=False, message="Open a merge request.")
    request = ask(agent, "git push origin main")
    assert (request.state, request.rule_ids) == (P.DENIED, [deny.pk])
    assert request.message == "Open a merge request."
    assert ask(agent, "git push origin fix").state == P.ALLOWED
    assert Event.objects.get(kind="permission.denied").data["rule"] == str(deny)


def test_a_denied_file_is_denied_to_every_tool_that_changes_files(agent: Agent) -> None:
    make_rule(agent, "keys/**", tool="Edit", allows=False)
    make_rule(agent, "keys/**", tool="Write")
    call = ToolCall("Write", {"file_path": "keys/a.txt", "content": "x"}, FOLDER)
    assert ask(agent, call).state == P.DENIED
    patch = "*** Begin Patch\n*** Update File: keys/a.txt\n+x\n*** End Patch"
    assert ask(agent, ToolCall("apply_patch", {"patch": patch}, FOLDER)).state == P.DENIED
    read = ToolCall("Read", {"file_path": "keys/a.txt"}, FOLDER)
    assert ask(agent, read).state == P.WAITING


def test_a_rule_holds_in_its_project_and_for_its_agent(agent: Agent) -> None:
    make_rule(agent, "npm test", for_all=False)
    assert ask(agent).state == P.ALLOWED
    assert ask(make_agent("second")).state == P.WAITING
    assert ask(make_agent("third", project=make_project("other"))).state == P.WAITING


def test_a_masked_call_is_never_allowed(agent: Agent) -> None:
    make_rule(agent, "echo *")
    secret = "ghp_" + "a1B2" * 9
    assert ask(agent, f"echo {secret}").state == P.WAITING
    assert ask(agent, "echo [redacted:github]").state == P.WAITING
    assert ask(agent, "echo hello").state == P.ALLOWED


def test_an_unused_rule_expires_and_a_revoked_one_ends(agent: Agent) -> None:
    unused, revoked = make_rule(agent, "npm test"), make_rule(agent, "npm ci")
    rules.revoke_rule(
        revoked.pk, among=PermissionRule.objects.all(), stamp=Stamp(MARA, NOW + MINUTE)
    )
    assert ask(agent, "npm ci").state == P.WAITING
    with pytest.raises(InvalidTransition, match="revoked"):
        rules.revoke_rule(
            revoked.pk, among=PermissionRule.objects.all(), stamp=Stamp(MARA, NOW + MINUTE)
        )
    late = NOW + rules.UNUSED + MINUTE
    assert ask(agent, "npm test", now=late).state == P.WAITING
    assert rules.expire_unused(now=late, of=None) == 1
    unused.refresh_from_db()
    assert unused.state == "expired"
    kinds = Event.objects.filter(kind__startswith="permission_rule").values_list("kind", flat=True)
    assert sorted(kinds) == [
        "permission_rule.created",
        "permission_rule.created",
        "permission_rule.expired",
        "permission_rule.revoked",
    ]


@pytest.mark.parametrize(
    ("tool", "matcher", "allows", "message"),
    [
        ("", "npm test", True, ""),
        ("Bash", "", True, ""),
        ("Bash", "bash -c *", True, ""),
        ("Bash", "sudo **", True, ""),
        ("Bash", "x" * 1001, True, ""),
        ("Bash", "npm test", True, "Only a denial tells the agent something."),
        ("Bash", "curl ghp_" + "a1B2" * 9, True, ""),
    ],
)
def test_a_rule_that_would_let_too_much_through_is_refused(
    agent: Agent, tool: str, matcher: str, allows: bool, message: str
) -> None:
    with pytest.raises(Invalid):
        make_rule(agent, matcher, tool=tool, allows=allows, message=message)
    assert not PermissionRule.objects.exists()


def test_the_same_rule_is_made_once(agent: Agent) -> None:
    assert make_rule(agent, "npm  test").pk == make_rule(agent, "npm test").pk
    assert make_rule(agent, "npm test", for_all=False).pk != make_rule(agent, "npm test").pk


def test_a_trial_tells_what_a_rule_would_have_decided(agent: Agent) -> None:
    for minute, (line, action) in enumerate(
        [("npm test", Answer.ALLOW), ("npm test", Answer.DENY), ("npm ci", Answer.ALLOW)]
    ):
        request = ask(agent, line, now=NOW + minute * MINUTE)
        answer(escalation_of(request), action, now=NOW + minute * MINUTE)
    ask(agent, "npm test", now=NOW - timedelta(days=31), session="old")
    trial = rules.try_rule(
        project_id=agent.project_id,
        agent=None,
        tool="Bash",
        matcher="npm test",
        allows=True,
        now=NOW + 5 * MINUTE,
    )
    assert (trial.tried, trial.matched, trial.against) == (3, 2, 1)
    assert not PermissionRule.objects.exists()


def test_a_trial_knows_the_rules_in_effect(agent: Agent) -> None:
    """A line that needs two rules counts if the other one is there, and a denied one never."""
    make_rule(agent, "npm ci")
    make_rule(agent, "npm test --force", allows=False)
    for line in ("npm ci && npm test", "npm ci", "npm test && ls", "npm test --force"):
        ask(agent, line)
    trial = rules.try_rule(
        project_id=agent.project_id,
        agent=None,
        tool="Bash",
        matcher="npm test",
        allows=True,
        now=NOW + MINUTE,
    )
    assert [each.title for each in trial.newest] == ["npm ci && npm test"]
    assert (trial.tried, trial.matched) == (4, 1)
