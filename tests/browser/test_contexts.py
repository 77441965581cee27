"""The comparison of what two attempts were told, in a browser: whole, with hostile texts."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from ledger.models import Agent
from tests.browser.conftest import Visitor, assert_whole
from tests.conftest import Api
from tests.factories import make_token
from tests.retries.api.calls import claim, enqueue

HOSTILE = "<script>document.title='owned'</script>‮ </pre>" + "x" * 300


@pytest.mark.parametrize("attempts", [0, 3])
def test_the_page_is_whole(visit: Callable[..., Visitor], coder: Agent, attempts: int) -> None:
    operator, api = Api(make_token("operator")), Api(make_token("agent", agent=coder))
    backoff = {"base_delay_ms": 0, "jitter": False}
    id = enqueue(operator, title=HOSTILE[:200], max_attempts=5, backoff=backoff)
    for number in range(attempts):
        attempt = claim(api)["data"][0]["attempt"]["id"]
        said = {"message": f"{number} {HOSTILE}", "details": f"line {number}\n" * 40}
        report = {"status": "failure", "failure": {"type": "verification_failed"} | said}
        assert api("POST", f"/attempts/{attempt}/result", report).status_code == 200
    path = f"/tasks/{id}/contexts/"
    if not attempts:
        assert_whole(visit().signed_in(), path)
        return
    visitor = visit().signed_in()
    page = visitor.open(f"/tasks/{id}/")
    page.locator("#contexts-link").click()
    expect(page.locator("#lines")).to_contain_text("&lt;script&gt;document.title='owned'")
    assert_whole(visitor, path)
    page = visit(java_script_enabled=False).signed_in().open(path)
    page.get_by_label("First").select_option("1")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#facts")).to_contain_text("told nothing")
