"""The tree of a check: what is the same tree, and what can't be read."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tenfour.checks import trees
from tenfour.checks.trees import read_tree

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Runs git in a repository that has one commit with two files."""

    def git(*args: str, folder: Path = tmp_path) -> str:
        who = ["-c", "user.name=Mara", "-c", "user.email=mara@example.org"]
        ended = subprocess.run(
            ["git", *who, *args], cwd=folder, check=True, capture_output=True, text=True
        )
        return ended.stdout.strip()

    git("init", "--quiet")
    (tmp_path / "a.py").write_text("a = 1\n")
    (tmp_path / "b.py").write_text("b = 1\n")
    git("add", ".")
    git("commit", "--quiet", "--message", "First")
    return git


def test_a_folder_without_a_commit_has_no_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The folder for temporary files is in the repository of this project.
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert read_tree(str(tmp_path)) is None
    assert read_tree(str(tmp_path / "nowhere")) is None
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    assert read_tree(str(tmp_path)) is None


def test_without_git_there_is_no_tree(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_tree(str(tmp_path)) is None


def test_a_clean_tree_is_its_commit(git: Git, tmp_path: Path) -> None:
    clean = {"commit": git("rev-parse", "HEAD"), "diff": None, "files": 0}
    assert read_tree(str(tmp_path)) == clean
    (tmp_path / "sub").mkdir()
    assert read_tree(str(tmp_path / "sub")) == clean


CHANGES: dict[str, Callable[[Path], object]] = {
    "edited": lambda top: (top / "a.py").write_text("a = 2\n"),
    "edited otherwise": lambda top: (top / "a.py").write_text("a = 3\n"),
    "another file": lambda top: (top / "b.py").write_text("a = 2\n"),
    "deleted": lambda top: (top / "a.py").unlink(),
    "made a program": lambda top: (top / "a.py").chmod(0o755),
    "new": lambda top: (top / "new file.py").write_text("c = 1\n"),
    "new with another name": lambda top: (top / "näw\nfile.py").write_text("c = 1\n"),
    "new with another content": lambda top: (top / "new file.py").write_text("c = 2\n"),
    "new link": lambda top: (top / "new file.py").symlink_to("a.py"),
}


def test_each_change_makes_another_tree(git: Git, tmp_path: Path) -> None:
    seen = [read_tree(str(tmp_path))]
    for change in CHANGES.values():
        change(tmp_path)
        found = read_tree(str(tmp_path))
        assert found and found["files"] == 1 and found["commit"] == git("rev-parse", "HEAD")
        assert found == read_tree(str(tmp_path))
        seen.append(found)
        git("stash", "--include-untracked", "--quiet")
        git("stash", "drop", "--quiet")
        assert read_tree(str(tmp_path)) == seen[0]
    assert len({each["diff"] for each in seen if each}) == len(CHANGES) + 1


def test_what_is_staged_does_not_matter(git: Git, tmp_path: Path) -> None:
    CHANGES["edited"](tmp_path)
    CHANGES["new"](tmp_path)
    before = read_tree(str(tmp_path))
    index = (tmp_path / ".git" / "index").read_bytes()
    assert read_tree(str(tmp_path)) == before
    assert (tmp_path / ".git" / "index").read_bytes() == index  # reading changes nothing
    git("add", ".")
    assert read_tree(str(tmp_path)) == before


@pytest.mark.parametrize("change", CHANGES)
def test_a_commit_of_the_same_files_changes_nothing(change: str, git: Git, tmp_path: Path) -> None:
    """An agent tests, commits what it tested, and reports."""
    CHANGES[change](tmp_path)
    (tmp_path / "draft.py").write_text("d = 1\n")
    tested = read_tree(str(tmp_path))
    git("add", "--all", "--", ":!draft.py")
    git("commit", "--quiet", "--message", "Second")
    assert read_tree(str(tmp_path)) != tested
    assert read_tree(str(tmp_path), before=tested) == tested
    git("add", ".")
    git("commit", "--quiet", "--message", "Third")
    assert read_tree(str(tmp_path), before=tested) == tested
    (tmp_path / "b.py").write_text("b = 5\n")
    assert read_tree(str(tmp_path), before=tested) == read_tree(str(tmp_path))


def test_a_commit_that_is_gone_is_another_tree(git: Git, tmp_path: Path) -> None:
    now = read_tree(str(tmp_path))
    assert read_tree(str(tmp_path), before={"commit": "0" * 40, "diff": None, "files": 0}) == now


def test_a_file_may_become_a_folder_and_a_folder_a_file(git: Git, tmp_path: Path) -> None:
    (tmp_path / "a.py").unlink()
    (tmp_path / "a.py").mkdir()
    (tmp_path / "a.py" / "inner.py").write_text("a = 1\n")
    found = read_tree(str(tmp_path))
    assert found and found["files"] == 2
    git("add", "--all")
    git("commit", "--quiet", "--message", "Second")
    (tmp_path / "a.py" / "inner.py").unlink()
    (tmp_path / "a.py").rmdir()
    (tmp_path / "a.py").write_text("a = 1\n")
    found = read_tree(str(tmp_path))
    assert found and found["files"] == 2


def test_ignored_files_do_not_count(git: Git, tmp_path: Path) -> None:
    (tmp_path / ".git" / "info" / "exclude").write_text("*.log\n")
    before = read_tree(str(tmp_path))
    (tmp_path / "test.log").write_text("1 passed\n")
    assert read_tree(str(tmp_path)) == before


def test_a_repository_inside_counts_with_its_files(git: Git, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    git("clone", "--quiet", ".", "inner")
    before = read_tree(str(tmp_path))
    (inner / "a.py").write_text("a = 2\n")
    after = read_tree(str(tmp_path))
    assert before and after and before["diff"] != after["diff"]


def test_a_repository_starts_no_program_of_its_own(git: Git, tmp_path: Path) -> None:
    program = tmp_path / ".git" / "spy"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/.git/started\n")
    program.chmod(0o755)
    for name in ("core.fsmonitor", "diff.external", "core.pager", "diff.spy.textconv"):
        git("config", name, str(program))
    (tmp_path / ".gitattributes").write_text("* diff=spy\n")
    CHANGES["edited"](tmp_path)
    before = read_tree(str(tmp_path))
    git("commit", "--quiet", "--all", "--message", "Second")
    assert before and read_tree(str(tmp_path), before=before) == before
    assert not (tmp_path / ".git" / "started").exists()


def test_another_repository_in_the_environment_does_not_matter(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_tree(str(tmp_path))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert read_tree(str(tmp_path)) == before


@pytest.mark.parametrize(
    ("limit", "value"), [("MOST_BYTES", 100), ("MOST_FILES", 2), ("TIMEOUT_S", 0.0)]
)
def test_a_tree_over_a_limit_is_not_read(
    limit: str, value: float, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tmp_path / f"new{number}").write_bytes(os.urandom(60))
    assert read_tree(str(tmp_path))
    monkeypatch.setattr(trees, limit, value)
    assert read_tree(str(tmp_path)) is None
