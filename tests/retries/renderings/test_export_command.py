"""`manage.py export`: the same files, from the server's side."""

from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from ledger.models import Agent
from retries.renderings import documents
from retries.renderings.scope import RenderingScope
from tests.retries.renderings.stories import sample

pytestmark = pytest.mark.django_db


def test_the_export_equals_the_api(agent: Agent, tmp_path: Path) -> None:
    now = timezone.now()
    plan, _ = sample(agent, now=now - timedelta(hours=1))
    call_command("export", str(tmp_path), stdout=StringIO())
    folders = {
        tmp_path: RenderingScope(agent.project_id),
        tmp_path / "plans/03-01": RenderingScope(plan.project_id, plan),
    }
    for folder, about in folders.items():
        told = documents.render_files(about, now=now)
        assert {path.name for path in folder.iterdir() if path.is_file()} == set(told)
        for name, pieces in told.items():
            assert (folder / name).read_text() == "".join(pieces)


def test_only_the_owner_and_the_group_read_an_export(agent: Agent, tmp_path: Path) -> None:
    """S3.46"""
    sample(agent, now=timezone.now() - timedelta(hours=1))
    folder = tmp_path / "a" / "b"
    call_command("export", str(folder), stdout=StringIO())
    found = [folder.parent, folder, *folder.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in found if path.is_dir()} == {0o750}
    assert {path.stat().st_mode & 0o777 for path in found if path.is_file()} == {0o640}


def test_an_unknown_plan_or_project_is_refused(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no plan 09-09"):
        call_command("export", str(tmp_path), plan="09-09")
    with pytest.raises(CommandError, match="no project"):
        call_command("export", str(tmp_path), project="other")
    assert not list(tmp_path.iterdir())
