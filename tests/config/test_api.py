"""The API's frame: unknown addresses, request ids, problems, and its description."""

import pytest
from django.test import Client

from config.api_document.problems import STATUS, problem_kinds, subclasses_of
from config.urls import FREQUENT, urlpatterns
from ledger.errors import Refusal
from tests.conftest import Api
from tests.ledger.api.test_instructions import problem

pytestmark = pytest.mark.django_db


def test_unknown_addresses_and_methods_are_problems(operator: Api) -> None:
    problem(operator("GET", "/nothing"), 404, "not_found")
    response = operator("DELETE", "/instructions")
    problem(response, 405, "method_not_allowed")
    assert set(response["Allow"].split(", ")) == {"GET", "POST"}


@pytest.mark.parametrize(
    ("asked", "kept"), [("abc-1.2_3", True), ("a b", False), ("x" * 65, False)]
)
def test_a_sane_request_id_is_kept(operator: Api, asked: str, kept: bool) -> None:
    assert (operator("GET", "/me", X_Request_Id=asked)["X-Request-Id"] == asked) is kept


def test_frequent_addresses_exist_and_come_first() -> None:
    (resolver,) = (url for url in urlpatterns if str(url.pattern) == "v1/")
    first = [str(url.pattern) for url in resolver.url_patterns][: len(FREQUENT)]
    assert set(first) == FREQUENT


def test_every_code_has_a_page_and_every_refusal_a_status() -> None:
    for code, kind in problem_kinds().items():
        text = Client().get(f"/problems/{code}").content.decode()
        assert code in text and kind.title in text and str(kind.status) in text
    assert Client().get("/problems/nonsense").status_code == 404
    for refusal in subclasses_of(Refusal):
        if refusal.code != "unknown_entry":  # only the command line raises it
            kind = problem_kinds()[refusal.code]
            assert refusal.code in STATUS
            assert (kind.title, kind.retryable) == (refusal.title(), refusal.retryable), refusal
