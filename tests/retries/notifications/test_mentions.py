"""A comment that mentions a person is sent to that person's own channels, and so is what is given."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger.authorization.roles import Role
from ledger.journal import Actor, Stamp
from ledger.models import Agent, Membership
from retries.assignment.rows import PATTERN, TASK, assign, comment
from retries.escalations import assignment
from retries.models import Channel, Delivery, Escalation, FailurePattern
from retries.notifications import outbox
from tests.dashboard.notifications.deliveries import make_notification_rule
from tests.dashboard.worked import buried
from tests.factories import MINUTE, NOW, make_project
from tests.retries.escalations.test_answering import ignored
from tests.retries.moves import make_task
from tests.retries.on_call.test_routing import deliver, own_channel

# the journal's readers see what was committed
pytestmark = pytest.mark.django_db(transaction=True)


def make_person(name: str, agent: Agent, role: Role = Role.OPERATOR) -> Channel:
    user = User.objects.create_user(name)
    Membership.objects.create(user=user, project=agent.project, role=role, added_by="mara")
    return own_channel(user)


def by(name: str) -> Stamp:
    return Stamp(Actor("user", "7", name), NOW)


def texts() -> list[str]:
    return [each.body["text"] for each in Delivery.objects.order_by("id")]


def test_people_are_told_of_comments_that_mention_them(agent: Agent) -> None:
    for name, role in (("ben", Role.OPERATOR), ("vera", Role.VIEWER), ("ada", Role.ADMIN)):
        make_person(name, agent, role)
    letter, asked = buried("Back up", agent=agent, now=NOW), ignored(agent)
    pattern = FailurePattern.objects.get()
    outbox.begin_reading(NOW)
    comment(TASK, letter.task_id, "@ben @ada @vera see the log", stamp=by("ada"))
    assert deliver() == [
        ("ben's", "task.commented", "pending"),
        ("vera's", "task.commented", "pending"),
    ]
    assert all("Mentioned you: Back up" in text and "see the log" not in text for text in texts())
    assert f"/tasks/{letter.task_id}/" in texts()[0] and "ada mentioned you" in texts()[0]
    comment(PATTERN, pattern.pk, "no names", stamp=by("ada"))
    comment(PATTERN, pattern.pk, "again @ben", stamp=by("ada"))
    every = Escalation.objects.all()
    assignment.comment(asked.pk, "@vera?", among=every, stamp=by("ada"))
    assert deliver()[2:] == [
        ("ben's", "pattern.commented", "pending"),
        ("vera's", "escalation.commented", "pending"),
    ]
    assert f"/patterns/{pattern.pk}/" in texts()[2]


def test_the_text_of_a_pattern_is_a_detail(agent: Agent) -> None:
    channel = make_person("ben", agent)
    buried(agent=agent, now=NOW)
    pattern = FailurePattern.objects.get()
    outbox.begin_reading(NOW)
    comment(PATTERN, pattern.pk, "@ben", stamp=by("ada"))
    assign(PATTERN, [pattern.pk], "ben", stamp=by("ada"))
    deliver()
    named = f"failure pattern {str(pattern.pk)[-8:]}"
    for each in Delivery.objects.all():
        assert each.title == named and named in each.body["subject"]
        assert "it broke" in pattern.template and "it broke" not in str(each.body)
    Channel.objects.filter(pk=channel.pk).update(include_details=True)
    assign(PATTERN, [pattern.pk], None, stamp=by("ada"))
    assign(PATTERN, [pattern.pk], "ben", stamp=by("eve"))
    deliver()
    body = Delivery.objects.latest("id").body
    assert "it broke" in body["text"] and "it broke" not in body["subject"]


def test_a_channel_with_details_gets_the_text(agent: Agent) -> None:
    channel = make_person("ben", agent)
    Channel.objects.filter(pk=channel.pk).update(include_details=True)
    letter = buried(agent=agent, now=NOW)
    outbox.begin_reading(NOW)
    comment(TASK, letter.task_id, "@ben see the log", stamp=by("ada"))
    deliver()
    assert "see the log" in texts()[0]


def test_what_others_assign_is_told_to_the_person(agent: Agent) -> None:
    make_person("ben", agent)
    letter = buried("Back up", agent=agent, now=NOW)
    pattern = FailurePattern.objects.get()
    outbox.begin_reading(NOW)
    assign(TASK, [letter.task_id], "ben", stamp=by("ben"))
    assign(TASK, [letter.task_id], None, stamp=by("ada"))
    assert deliver() == []
    assign(TASK, [letter.task_id], "ben", stamp=by("ada"))
    assign(PATTERN, [pattern.pk], "ben", stamp=by("ada"))
    assert [kind for _, kind, _ in deliver()] == ["task.assigned", "pattern.assigned"]
    assert "Assigned: Back up" in texts()[0] and "ada assigned it to ben." in texts()[0]


def test_what_one_person_assigns_at_once_is_one_message(agent: Agent) -> None:
    make_person("ben", agent)
    tasks = [make_task(agent, title=f"t{number}") for number in range(8)]
    outbox.begin_reading(NOW)
    assign(TASK, tasks[:3], "ben", stamp=by("ada"))
    with CaptureQueriesContext(connection) as seen:
        assert len(deliver()) == 1
    asked = [each["sql"] for each in seen.captured_queries if '"username" IN' in each["sql"]]
    assert len(asked) == 1
    assert "ada assigned 3 tasks to ben." in texts()[0] and "q=assignee:me" in texts()[0]
    # the next one waits, and counts those that follow
    assign(TASK, tasks[3:4], "ben", stamp=by("ada"))
    assert len(deliver(1)) == 2 and "Assigned: t3" in texts()[1]
    assign(TASK, tasks[4:6], "ben", stamp=by("ada"))
    assert len(deliver(2)) == 2 and "Assigned: 3 tasks" in texts()[1]
    waiting = Delivery.objects.latest("id")
    assert waiting.next_try_at == NOW + 5 * MINUTE and waiting.title == "3 tasks"
    assert waiting.subject_id is None
    # what another person assigns, or the same person later, is sent at once
    assign(TASK, tasks[6:7], "ben", stamp=by("eve"))
    assert len(deliver(2)) == 3 and "Assigned: t6" in texts()[2]
    assign(TASK, tasks[7:], "ben", stamp=by("ada"))
    assert len(deliver(20)) == 4 and "Assigned: t7" in texts()[3]
    assert Delivery.objects.latest("id").next_try_at == NOW + 20 * MINUTE


def test_who_left_the_project_meanwhile_is_told_nothing(agent: Agent) -> None:
    channel = make_person("ben", agent)
    letter = buried(agent=agent, now=NOW)
    outbox.begin_reading(NOW)
    comment(TASK, letter.task_id, "@ben", stamp=by("ada"))
    Membership.objects.filter(user__username="ben").delete()
    assert deliver() == []
    Membership.objects.create(user=User.objects.get(), project=agent.project, role=Role.VIEWER)
    Channel.objects.filter(pk=channel.pk).update(project=make_project("other"))
    comment(TASK, letter.task_id, "@ben", stamp=by("ada"))
    assert deliver() == []


def test_a_channel_that_a_rule_told_of_the_comment_gets_no_second_message(agent: Agent) -> None:
    channel = make_person("ben", agent)
    make_notification_rule(channel, now=NOW, conditions=["task.commented"])
    letter = buried(agent=agent, now=NOW)
    outbox.begin_reading(NOW)
    comment(TASK, letter.task_id, "@ben", stamp=by("ada"))
    assert deliver() == [("ben's", "task.commented", "pending")]


def test_a_message_to_a_person_takes_the_place_of_one_that_a_rule_holds_back(agent: Agent) -> None:
    channel = make_person("ben", agent)
    kinds = ["task.commented", "task.assigned"]
    rule = make_notification_rule(channel, now=NOW, conditions=kinds, cap_per_hour=1)
    letter = buried(agent=agent, now=NOW)
    outbox.begin_reading(NOW)
    comment(TASK, letter.task_id, "no names", stamp=by("ada"))
    comment(TASK, letter.task_id, "@ben", stamp=by("ada"))
    assign(TASK, [letter.task_id], "ben", stamp=by("ada"))
    comment(TASK, letter.task_id, "no names again", stamp=by("ada"))
    deliver()
    rows = Delivery.objects.order_by("event_id").values_list("kind", "state", "rule")
    assert list(rows) == [
        ("task.commented", "pending", rule.pk),
        ("task.commented", "pending", None),
        ("task.assigned", "pending", None),
        ("task.commented", "held", rule.pk),
    ]
