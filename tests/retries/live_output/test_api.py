"""Output is sent by the attempt's agent while it is live, and read by those who see the task."""

from collections.abc import Callable
from typing import Any

import pytest

from ledger.models import Agent, Project, Task
from retries.live_output import storing
from retries.models import AttemptOutput
from retries.retention.task_rows import clear_payloads, delete_tasks
from tests.conftest import Api
from tests.ledger.api.test_instructions import problem
from tests.retries.api.calls import claim, enqueue

pytestmark = pytest.mark.django_db
LINE = "line of a program that prints much\n"


@pytest.fixture
def path(agent: Agent, coder: Api, operator: Api) -> str:
    enqueue(operator)
    return f"/attempts/{claim(coder)['data'][0]['attempt']['id']}/output"


def send(coder: Api, path: str, at: int, text: str) -> int:
    response = coder("POST", path, {"at": at, "text": text})
    assert response.status_code == 200, response.content
    next_at: int = response.json()["next"]
    return next_at


def test_output_is_read_while_the_attempt_runs_and_afterwards(
    coder: Api, operator: Api, path: str
) -> None:
    assert operator("GET", path).json() == {"data": [], "next": 0, "is_live": True}
    assert send(coder, path, 0, "one\npassword=hunter2hunter2\n") == 0
    send(coder, path, 0, "one\npassword=hunter2hunter2\ntwo\n")
    found = operator("GET", path).json()
    assert [piece["text"] for piece in found["data"]] == ["one\npassword=[redacted:secret]\ntwo\n"]
    send(coder, path, 100, "rest\nthree\n")
    assert operator("GET", f"{path}?from=50").json()["data"] == [
        {"at": 100, "size": 11, "left_out": 68, "text": "three\n"}
    ]
    report = coder("POST", path.replace("output", "result"), {"status": "success"})
    assert report.status_code == 200
    text = operator("GET", path, accept="text/plain").content.decode()
    assert text == "one\npassword=[redacted:secret]\ntwo\n[… 68 bytes left out]\nthree\n"
    assert operator("GET", path).json()["is_live"] is False
    problem(coder("POST", path, {"at": 111, "text": "late\n"}), 409, "lease_lost")
    assert AttemptOutput.objects.count() == 2


@pytest.mark.parametrize("odd", ["\0", "\ud800"])
def test_characters_that_can_not_be_stored_move_no_place(
    odd: str, coder: Api, operator: Api, path: str
) -> None:
    printed = f"{odd * 40}one\npassword=hunter2hunter2correct\nend\n"
    size = len(printed.encode(errors="surrogatepass"))
    half = printed.index("2correct")
    send(coder, path, 0, printed[:half])
    send(coder, path, len(printed[:half].encode(errors="surrogatepass")), printed[half:])
    send(coder, path, size, "last\n")
    (piece,) = operator("GET", path).json()["data"]
    assert (piece["at"], piece["size"]) == (0, size + 5)
    assert "correct" not in piece["text"] and "\x01" not in piece["text"]
    assert piece["text"].endswith("end\nlast\n")


def test_what_is_no_piece_is_refused(
    api: Callable[..., Api], project: Project, coder: Api, path: str
) -> None:
    reviewer = api("agent", agent=Agent.objects.create(project=project, name="reviewer"))
    problem(coder("POST", path, {"at": -1, "text": ""}), 422, "validation_error")
    problem(coder("POST", path, {"at": 0, "text": "ä" * 40_000}), 422, "validation_error")
    problem(coder("POST", path, {"at": 0}), 422, "validation_error")
    problem(reviewer("POST", path, {"at": 0, "text": "x\n"}), 404, "not_found")
    problem(reviewer("GET", path), 404, "not_found")
    assert send(coder, path, 0, "") == 0 and not AttemptOutput.objects.exists()


def test_the_first_output_and_the_newest_is_kept(coder: Api, path: str, operator: Api) -> None:
    sent = 0
    while sent < 2_000_000:
        text = "".join(f"{number:07} {LINE}" for number in range(sent, sent + 60_000, 43))
        send(coder, path, sent, text)
        sent += len(text)
    found = AttemptOutput.objects.order_by("at")
    total = sum(len(row.text) for row in found)
    assert 900_000 < total <= 1_048_576
    assert found[0].at == 0 and found.last().at + found.last().size == sent  # type: ignore[union-attr]
    text = operator("GET", path, accept="text/plain").content.decode()
    assert text.count("bytes left out") == 1 and len(text) < 1_100_000
    # read in several calls
    shown: dict[int, Any] = {}
    start, calls = 0, 0
    while True:
        page = operator("GET", f"{path}?from={start}").json()
        shown |= {piece["at"]: piece["text"] for piece in page["data"]}
        calls += 1
        if page["next"] == start:
            break
        start = page["next"]
    assert "".join(shown.values()) == "".join(row.text for row in found) and calls > 3


def test_many_small_pieces_stay_few_rows(coder: Api, path: str, agent: Agent) -> None:
    for number in range(300):
        send(coder, path, number * len(LINE), LINE)
    assert AttemptOutput.objects.count() <= 4
    for number in range(600):  # each after a gap
        send(coder, path, 1_000_000 + number * 100, LINE)
    assert AttemptOutput.objects.count() <= storing.FIRST_PIECES + storing.NEWEST_PIECES


def test_output_goes_with_the_payload_and_with_the_task(coder: Api, path: str) -> None:
    send(coder, path, 0, LINE)
    (task,) = Task.objects.values_list("pk", flat=True)
    clear_payloads([task])
    assert not AttemptOutput.objects.exists()
    send(coder, path, 0, LINE)
    delete_tasks([task])
    assert not AttemptOutput.objects.exists()
