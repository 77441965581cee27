"""Every page: it fits every width, works without scripts, and costs little while nothing happens."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import CDPSession, Page, expect

from dashboard.frame import live_updates
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Attempt
from retries import breaker_actions
from tests.browser import layout_faults, overlaps
from tests.browser.conftest import (
    DEADLINE_MS,
    HAS_SETTLED,
    Visitor,
    assert_whole,
    assert_whole_as_it_is,
    axe_findings,
    wait_until,
)
from tests.browser.page_clock import stop_clock
from tests.browser.touch_targets import find_small_targets
from tests.dashboard.limits.shares import note_share
from tests.dashboard.test_read_only import make_world
from tests.dashboard.worked import claimed, enqueued, make_plan
from tests.factories import make_agent, send

WIDTHS = (320, 390, 600, 720, 768, 900, 1024, 1200, 1280, 1440, 1920)
# comparing all texts costs more than a width
OVERLAP_WIDTHS = (320, 390, 768, 1024, 1440, 1920)
# where the sidebar has icons only; other tests look at the colors, and at a phone and a desk
AXE_WIDTH = 768
FORMS = ("/instructions/new/", "/plans/import/", "/sessions/import/", "/instructions/standing/new/")
FORMS += ("/tasks/new/?type=code",)
FORMS += ("/settings/permissions/new/?tool=Bash&matcher=npm+test",)
# no other test looks at them with axe
NOT_ELSEWHERE = ("tokens", "on_call", "budgets", "limits", "pools", "pool", "task_spans")
NOT_ELSEWHERE += ("/instructions/new/", "/sessions/import/")
# Waits for a width, and returns all that is wrong with the layout there. The bar cuts a long name of
# the page, but not to less than 50 px. One script, because a question to the page takes its time.
LOOK = f"""async ([width, withOverlaps]) => {{
    const end = Date.now() + {DEADLINE_MS};
    while (innerWidth !== width || !({HAS_SETTLED})("light")) {{
        await new Promise(requestAnimationFrame);
        if (Date.now() > end) throw new Error("The page does not settle.");
    }}
    const name = document.querySelector(".top h1");
    const isCut = name.clientWidth < Math.min(name.scrollWidth, 50);
    return [
        ...({layout_faults.SCRIPT})(),
        ...(withOverlaps ? ({overlaps.SCRIPT})() : []),
        ...(isCut ? [`${{name.clientWidth}} px of its name`] : []),
    ];
}}"""
# how far an element starts from the left edge of the part beside the sidebar
FROM_MAIN = (
    "each => each.getBoundingClientRect().x - each.closest('main').getBoundingClientRect().x"
)
LONG_NAMES = ("reconciler-of-invoices-eu-central-1", "w" * 64, "payments-nightly-batch")
IDLE_BYTES = 26_000  # per minute
SECONDS, STEP = 60, 2


@pytest.fixture
def paths(coder: Agent, mara: User, now: datetime) -> dict[str, str]:
    """Return the addresses of all pages, each with something to show."""
    browser = Client()
    browser.force_login(mara)
    world = make_world(coder, browser, now)
    # an open question hides a page's own actions
    plain = {f"{name} alone": world[name].partition("?")[0] for name in ("task", "agent")}
    return world | plain | {path: path for path in FORMS}


def make_busy_agents(now: datetime) -> None:
    """Make agents whose columns are full: long names, open breakers, silence, work, and limits."""
    hour = timedelta(hours=1)
    for number, name in enumerate(LONG_NAMES):
        agent = make_agent(name)
        claimed(agent, enqueued(agent, "Reconcile the ledger of all invoices", now=now), now=now)
        send(agent, f"Step {number}: run the whole test suite", now=now - hour)
        enqueued(agent, f"Reconcile {'the ledger ' * 9}", now=now)
        note_share(agent, 1 - number / 10, now=now)
        if number:
            breaker_actions.trip([agent], reason="it breaks " * 9, stamp=Stamp(SYSTEM, now))


def test_every_page_fits_every_width(
    visit: Callable[..., Visitor], paths: dict[str, str], now: datetime
) -> None:
    """No width loses a name, nor does a zoom of 200 % (OPR-5, OPR-19, OPR-39, OPR-40)."""
    make_busy_agents(now)
    visitor = visit(device_scale_factor=2).signed_in()
    faults: dict[tuple[str, int], list[str]] = {}
    for name, path in paths.items():
        page = visitor.open(path)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            found = page.evaluate(LOOK, [width, width in OVERLAP_WIDTHS])
            if width == AXE_WIDTH:
                found += axe_findings(page, contrast=False, part="html")
            if found:
                faults[name, width] = found
        if name in NOT_ELSEWHERE:
            assert_whole_as_it_is(page)
            page.emulate_media(color_scheme="light")
    assert faults == {}
    assert_whole(visitor, paths["home"], part="html")  # with the bars that are around every page


def test_every_page_works_without_scripts(
    visit: Callable[..., Visitor], paths: dict[str, str]
) -> None:
    """What only a script can do is not offered without one, and each dialog has a page of its own."""
    visitor, dead = visit(java_script_enabled=False).signed_in(), {}
    for name, path in paths.items():
        page = visitor.open(path)
        expect(page.locator("h1").first).to_be_visible()
        buttons = page.locator("button[type=button]:visible, button[data-open]:not(form *):visible")
        if useless := [each.inner_text() or each.get_attribute("class") for each in buttons.all()]:
            dead[name] = useless
    assert dead == {}


def test_forms_start_where_lists_do(visit: Callable[..., Visitor], coder: Agent) -> None:
    visitor = visit(width=1920).signed_in()
    starts = {
        path: visitor.open(path).eval_on_selector(".page--form, .rule-form", FROM_MAIN)
        for path in FORMS
    }
    assert starts == dict.fromkeys(FORMS, 0)


def test_every_page_can_be_used_with_a_finger(
    visit: Callable[..., Visitor], paths: dict[str, str]
) -> None:
    """Everything that can be pressed is at least 44 px high and wide."""
    visitor = visit(width=390, has_touch=True, is_mobile=True).signed_in()
    small = {}
    for name, path in paths.items():
        if found := find_small_targets(visitor.open(path)):
            small[name] = found
    assert small == {}
    page = visitor.open("/tasks/")
    page.click(".tab:has-text('More')")
    assert find_small_targets(page, "#side") == []


def test_an_idle_tab_costs_little(
    visit: Callable[..., Visitor],
    paths: dict[str, str],
    coder: Agent,
    now: datetime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also in a minute in which every poll renders the page, as when events of others move it."""
    monkeypatch.setattr(live_updates, "MAX_AGE_SECONDS", 0)
    hour = timedelta(hours=1)
    plan, (runs, _) = make_plan("09-01", [("Run", []), ("Wait", [1])], agent=coder, now=now - hour)
    claimed(coder, runs, now=now - hour)
    Attempt.objects.filter(task=runs).update(lease_expires_at=now + hour)
    silent = make_agent("silent")
    send(silent, now=now - hour)
    Agent.objects.filter(pk=silent.pk).update(last_seen_at=now - timedelta(minutes=9, seconds=30))
    paths |= {
        "plan": f"/plans/{plan.pk}/",
        "task": f"/tasks/{runs}/",
        "agent": f"/agents/{silent.pk}/",
    }
    visitor, costs = visit(), {}
    page = visitor.sign_in()
    stop_clock(page)
    traffic = Traffic(page.context.new_cdp_session(page))
    for name in ("home", "escalations", "tasks", "task", "plan", "agents", "agent", "session"):
        page.goto(visitor.url + paths[name].partition("?")[0])  # without its dialog
        expect(page.locator("#live")).to_contain_text("Live")
        costs[name] = count_idle_bytes(page, traffic)
    assert {name: cost for name, cost in costs.items() if cost > IDLE_BYTES} == {}


def count_idle_bytes(page: Page, traffic: "Traffic") -> int:
    """Let a minute pass, and return the bytes that the page sent and received."""
    wait_until(page, lambda: not traffic.is_open)
    traffic.bytes = 0
    for _ in range(SECONDS // STEP):
        page.clock.run_for(STEP * 1000)
        wait_until(page, lambda: not traffic.is_open)
    assert traffic.bytes, "the page has polled"
    return traffic.bytes


class Traffic:
    """The bytes of a page's requests and responses, with their headers."""

    def __init__(self, session: CDPSession) -> None:
        self.bytes = 0
        self.open: set[str] = set()
        session.on("Network.requestWillBeSent", self.begin)
        session.on("Network.requestWillBeSentExtraInfo", self.count_headers)
        session.on("Network.loadingFinished", self.end)
        session.on("Network.loadingFailed", self.end)
        session.send("Network.enable")

    @property
    def is_open(self) -> bool:
        return bool(self.open)

    def begin(self, event: dict[str, object]) -> None:
        self.open.add(str(event["requestId"]))

    def count_headers(self, event: dict[str, dict[str, str]]) -> None:
        self.bytes += sum(len(key) + len(value) + 4 for key, value in event["headers"].items())

    def end(self, event: dict[str, object]) -> None:
        self.open.discard(str(event["requestId"]))
        self.bytes += int(str(event.get("encodedDataLength", 0)).partition(".")[0])
