"""The admin in a browser: it fits a telephone, with texts that are long or hostile."""

from collections.abc import Callable
from datetime import datetime

from django.contrib.auth.models import User
from django.test import Client

from ledger.models import Agent, Attempt, DeadLetter, Event, Instruction, Task
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
            if found := axe_findings(page):
                wrong[model, place] = found
            visitor.complaints.clear()  # axe adds styles, which the page's policy refuses
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
