"""The admin in a browser: it fits a telephone, with texts that are long or hostile."""

from collections.abc import Callable
from datetime import datetime

from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import expect

from ledger.models import Agent, Attempt, DeadLetter, Event, Instruction, Plan, Task
from retries.models import Escalation
from tests.admin_pages import path
from tests.browser.conftest import HAS_SETTLED, Visitor, axe_findings, overflow, set_width
from tests.dashboard.test_read_only import make_world

WIDTHS = (1440, 390)
LONG = "W" * 200
HOSTILE = '<script>document.title = "owned"</script>\u202eمرحبا 🚀'
# the inputs above a list, with their distances to the edges of the list
INPUTS = """inputs => inputs.map((each) => {
    const [box, list] = [each, each.closest("#changelist")].map((el) => el.getBoundingClientRect());
    return [each.name, box.width / list.width, list.right - box.right];
})"""


def test_lists_and_rows_fit_a_telephone(
    visit: Callable[..., Visitor], coder: Agent, mara: User, now: datetime
) -> None:
    """And axe finds nothing there."""
    browser = Client()
    browser.force_login(mara)
    make_world(coder, browser, now)
    Task.objects.update(title=LONG)
    Task.objects.filter(state="escalated").update(title=HOSTILE)
    Instruction.objects.update(content=f"{HOSTILE} {LONG}")
    visitor = visit().signed_in()
    wrong: dict[object, object] = {}
    for model in (Task, Agent, Escalation, DeadLetter, Event, Attempt, Instruction):
        row = model._default_manager.order_by("-pk").first()
        assert row
        for place in ("", f"{row.pk}/change/", f"{row.pk}/history/"):
            page = visitor.open(path(model, place))
            for width in WIDTHS:
                set_width(page, width)
                page.wait_for_function(HAS_SETTLED, arg="light")
                if pixels := overflow(page):
                    wrong[model, place, width] = pixels
            assert visitor.complaints == [] and page.title() != "owned", (model, place)
            if found := axe_findings(page, part="html"):
                wrong[model, place] = found
            visitor.complaints.clear()  # axe adds styles, which the page's policy refuses
    for model in (Task, Escalation):  # all columns are in view
        page = visitor.open(path(model))
        set_width(page, 1440)
        cut = "list => list.parentElement.scrollWidth - list.parentElement.clientWidth"
        if (pixels := page.locator("#result_list").evaluate(cut)) > 0:
            wrong[model, "columns"] = pixels
    assert wrong == {}


def test_the_inputs_of_actions_are_as_wide_as_a_telephone(
    visit: Callable[..., Visitor], coder: Agent
) -> None:
    visitor = visit(width=390).signed_in()
    for model in (Task, Agent, Escalation):
        page = visitor.open(path(model))
        inputs = page.eval_on_selector_all(
            "#changelist .action-input :is(input, select, textarea)", INPUTS
        )
        assert inputs or model is not Agent
        for name, part, distance in inputs:
            assert part > 0.9 and distance >= 0, (model, name, part, distance)


def test_a_verb_of_each_noun_is_pressed(
    visit: Callable[..., Visitor], coder: Agent, mara: User, now: datetime
) -> None:
    """Their buttons stand in the form of the row, and send another one."""
    browser = Client()
    browser.force_login(mara)
    make_world(coder, browser, now)
    visitor = visit().signed_in()
    names = {}
    for model in (Task, Agent, Escalation, DeadLetter, Instruction, Plan):
        rows = model._default_manager.order_by("-pk")
        if model is Escalation:
            rows = rows.filter(task__isnull=False)
        before = Event.objects.count()
        page = visitor.open(path(model, f"{rows[0].pk}/change/"))
        for field in page.locator("#verbs textarea, #verbs input[type=text]").all():
            field.fill("7")
        button = page.locator("#verbs button").first
        names[model] = button.inner_text()
        button.click()
        sure = page.locator("input[name=confirmed] ~ input[type=submit]")
        success = page.locator(".messagelist .success")
        expect(sure.or_(success)).to_be_visible()
        if sure.count():
            sure.click()
        expect(success).to_be_visible()
        assert Event.objects.count() > before, names
    assert len(names) == 6 and visitor.complaints == []
