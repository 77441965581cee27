"""The table of known errors, tried with its own examples (S1.14, S1.16)."""

import pytest

from ledger.models import Failure
from retries.failures.fixes.suggestions import offer_fixes, suggest
from retries.failures.known_errors import BY_NAME, EXIT_CODES, KNOWN_ERRORS, Action, find


@pytest.mark.parametrize(
    ("name", "line"), [(error.name, line) for error in KNOWN_ERRORS for line in error.examples]
)
def test_each_example_is_its_error(name: str, line: str) -> None:
    found = find(line)
    assert found is not None and found.error.name == name
    assert "{" not in found.cause + found.fix


@pytest.mark.parametrize("name", BY_NAME)
def test_what_a_person_must_fix_is_never_offered_as_an_answer(name: str) -> None:
    """OPR-6: a person is told what to do, and no offered fix tells the agent to ask a person."""
    error = BY_NAME[name]
    assert bool(error.for_person) == (error.action == Action.ASK)
    blank = {"details": "", "root_cause_guess": "", "suggested_fix": "", "verification": None}
    failure = Failure(message=error.examples[0], **blank)
    found, offers = suggest(failure), offer_fixes(failure, [], most=3)
    assert found.for_person.startswith(error.for_person.partition("{")[0])
    assert not error.for_person or not (found.fix or offers)
    assert error.for_person or [each.fix for each in offers] == [error.fix]
    texts = [each.fix.casefold() for each in offers]
    assert not [text for text in texts if "ask a person" in text or "ask for access" in text]


def test_the_remedy_names_the_account() -> None:
    """OPR-6: with a name of harmless characters, in the person's words."""
    line = 'pods is forbidden: User "deploy" cannot create resource "pods" in namespace "prod"'
    found = find(f"Error from server (Forbidden): {line}")
    assert found and found.for_person == "Grant `deploy` this permission, then retry."
    found = find("HTTP 403: Forbidden")
    assert found and found.for_person == "Grant the agent's account this permission, then retry."


@pytest.mark.parametrize("name", BY_NAME)
def test_no_pattern_finds_the_example_of_another_error(name: str) -> None:
    """RTY-8: an entry may match examples of earlier entries only, and says why."""
    error, names = BY_NAME[name], list(BY_NAME)
    found = {
        other.name: line
        for other in KNOWN_ERRORS
        for line in other.examples
        if other is not error and error.pattern.search(line)
    }
    assert found.keys() == error.overlaps.keys(), found
    assert all(names.index(other) < names.index(name) for other in found)
    assert all(len(reason.split()) > 3 for reason in error.overlaps.values())


# Each was found to be another error by a pattern that was too loose (RTY-8).
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("assertion", "AssertionError: expected 'a' to equal 'b'"),
        ("wrong_type", "Type error: Property 'totl' does not exist on type 'Order'."),
        (
            None,
            'connection to server at "127.0.0.1", port 5432 failed: FATAL: database "x" is gone',
        ),
        ("certificate", "npm error request failed, reason: self-signed certificate in the chain"),
        ("image_pull", "Error: ErrImagePull after the wait timed out"),
        ("migration_state", "FAILED: Multiple head revisions are present"),
        ("sanitizer", "--- FAIL: TestTotal: race detected during execution of test"),
    ],
)
def test_a_loose_word_does_not_decide(name: str | None, line: str) -> None:
    found = find(line)
    assert (found and found.error.name) == name


def test_every_error_has_a_name_of_its_own_and_two_examples() -> None:
    assert len(BY_NAME) == len(KNOWN_ERRORS)
    assert all(len(set(each.examples)) > 1 for each in KNOWN_ERRORS)
    assert set(EXIT_CODES.values()) <= set(BY_NAME)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "It went wrong",
        "2 passed, 0 failed",
        "0 problems (0 errors)",
        "see chapter 4.3",
        "KeyError: 'user_id'",
        "failed to push the button: no finger",
        "request 1429 of 5000 was wrong",
        "the limit of 403 files",
    ],
)
def test_other_texts_match_no_error(text: str) -> None:
    assert find(text) is None


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("quota", Action.ASK),
        ("authentication", Action.ASK),
        ("forbidden", Action.ASK),
        ("rate_limit", Action.WAIT),
        ("service_away", Action.WAIT),
        ("assertion", Action.RETRY),
    ],
)
def test_credentials_and_credit_need_a_person(name: str, action: Action) -> None:
    assert BY_NAME[name].action == action


def test_the_most_telling_line_decides() -> None:
    """Of a test that failed because nothing listened, the cause is that."""
    output = (
        "FAIL src/a.test.js\nError: connect ECONNREFUSED 127.0.0.1:1\n1 failed\nkilled 2 workers"
    )
    found = find(output)
    assert found is not None and found.error.name == "connection_refused"


def test_an_exit_code_counts_if_no_text_matches() -> None:
    found = find("It ended", exit_code=127)
    assert found is not None and found.cause.startswith("The command is not installed")
    assert find("It ended", exit_code=1) is None


def test_only_a_name_from_the_error_enters_the_cause() -> None:
    found = find("Cannot find module 'x; rm -rf ~'")
    assert found is None or "rm" not in found.cause + found.fix
