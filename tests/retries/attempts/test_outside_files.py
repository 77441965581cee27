"""A report that names files outside of its task's files is marked."""

from typing import Any

import pytest

from ledger.models import Attempt, Event
from retries.tasks.outside_files import LISTED
from tests.conftest import Api
from tests.retries.api.calls import claim, enqueue

pytestmark = pytest.mark.django_db
KIND = "task.files_outside"


def outside(files: list[str] | None, *paths: str) -> list[str]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "select ledger_files_outside(to_jsonb(%s::text[]), %s::text[])", [files, list(paths)]
        )
        found: list[str] = cursor.fetchone()[0]
        return found


@pytest.mark.parametrize(
    ("files", "path"),
    [
        (["src/a.py"], "src/a.py"),
        (["src/a.py"], "./src//a.py "),
        (["src/"], "src/sub/a.py"),
        (["src/*.py"], "src/sub/a.txt"),
        (["src/**"], "src/app/[id]/page.tsx"),
        (["app/[id].tsx"], "app/[id].tsx"),
        (["src\\a.py"], "src/a.py"),
        (["src/a.py"], "/home/me/repo/src/a.py"),
        (["src"], "C:\\repo\\src\\a.py"),
        (["/repo/src"], "src/a.py"),
        (["**"], "any/file"),
        (["."], "any/file"),
        (["lib/../src"], "any/file"),
        (["x"], " "),
        ([f"f{n}" for n in range(501)], "any/file"),
        ([" "], "any/file"),
        ([], "any/file"),
        (None, "any/file"),
    ],
)
def test_files_inside(files: list[str] | None, path: str) -> None:
    assert not outside(files, path)


@pytest.mark.parametrize(
    ("files", "path"),
    [
        (["src/a.py"], "src/b.py"),
        (["src/a.py"], "src"),
        (["src"], "src2/a.py"),
        (["src/*.py"], "lib/a.py"),
        (["src/a.py"], "SRC/a.py"),
        (["src/a.py"], "/home/me/repo/src/b.py"),
        (["src/a.py"], "/home/me/xsrc/a.py"),
        (["/repo/src"], "/repo/lib/a.py"),
        (["src"], "src/../lib/a.py"),
        ([f"src/{n}" for n in range(500)], "src/x"),
    ],
)
def test_files_outside(files: list[str], path: str) -> None:
    assert outside(files, path, path) == [path]


def report(coder: Api, attempt: str, *paths: str, **more: Any) -> dict[str, Any]:
    body = {"status": "success", "files_modified": [{"path": path} for path in paths]} | more
    response = coder("POST", f"/attempts/{attempt}/result", body)
    assert response.status_code == 200, response.content
    found: dict[str, Any] = response.body
    return found


def work(coder: Api, *files: str) -> str:
    enqueue(coder, payload={"files": list(files)})
    attempt: str = claim(coder)["data"][0]["attempt"]["id"]
    return attempt


def test_a_success_is_marked_and_counts(coder: Api, operator: Api) -> None:
    attempt = work(coder, "src/")
    said = report(coder, attempt, "src/a.py", "lib/b.py", "c.py")
    marked = {"count": 2, "files": ["lib/b.py", "c.py"]}
    assert (said["decision"], said["outside_files"]) == ("done", marked)
    assert report(coder, attempt, "src/a.py", "lib/b.py", "c.py") == said  # sent again
    event = Event.objects.get(kind=KIND)
    assert event.data == {"attempt": 1} | marked and event.to_state is None
    assert event.actor_type == "token"
    task_id = Attempt.objects.get().task_id
    read = operator("GET", f"/tasks/{task_id}/attempts").body["data"][0]
    assert read["decision"]["outside_files"] == marked


def test_a_failure_is_marked(coder: Api) -> None:
    said = report(coder, work(coder, "a"), "b", status="failure")
    assert said["decision"] == "wait" and said["outside_files"]["files"] == ["b"]
    assert Event.objects.filter(kind=KIND).count() == 1


@pytest.mark.parametrize(("files", "paths"), [(["src/"], ["src/a"]), ([], ["x"]), (["a"], [])])
def test_nothing_is_marked_without_other_files(
    coder: Api, files: list[str], paths: list[str]
) -> None:
    said = report(coder, work(coder, *files), *paths)
    assert "outside_files" not in said and not Event.objects.filter(kind=KIND).exists()


def test_a_mark_is_bounded_and_clean(coder: Api) -> None:
    names = ["b\u0000\u202e/x", "token=ghp_" + "a" * 36, *(f"{'x' * 900}{n}" for n in range(300))]
    said = report(coder, work(coder, "a"), *names)["outside_files"]
    assert said["count"] == 200 and len(said["files"]) == LISTED
    assert said["files"][0] == "b/x" and "ghp_" not in said["files"][1]
    assert max(map(len, said["files"])) <= 300
