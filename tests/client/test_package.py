"""A package of its own: what it imports, what it needs, what it installs."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from setuptools import build_meta
from tenfour.version import __version__

from tests.serving import ROOT, environment

CLIENT = ROOT / "client"


def test_importing_it_imports_neither_django_nor_httpx2() -> None:
    code = "import sys, tenfour, tenfour.cli; print({'django', 'httpx2'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment({}),
        check=True,
    )
    assert done.stdout.strip() == "set()"


def test_nothing_in_it_names_django() -> None:
    for path in (CLIENT / "tenfour").glob("*.py"):
        assert "django" not in path.read_text(), path


def test_its_metadata_asks_for_httpx2_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "client"
    for path in [
        *(CLIENT / name for name in ("pyproject.toml", "README.md", "LICENSE")),
        *(CLIENT / "tenfour").iterdir(),
    ]:
        if path.is_file():
            target = copy / path.relative_to(CLIENT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    monkeypatch.chdir(copy)
    folder = build_meta.prepare_metadata_for_build_wheel(str(tmp_path))
    metadata = (tmp_path / folder / "METADATA").read_text()
    needs = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
    assert needs == ["Requires-Dist: httpx2>=2.16"]
    assert f"\nVersion: {__version__}\n" in metadata
    assert "tenfour = tenfour.cli:main" in (tmp_path / folder / "entry_points.txt").read_text()


def test_types_are_shipped() -> None:
    package_data = tomllib.loads((CLIENT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert package_data["package-data"] == {"tenfour": ["py.typed"]}
    assert (CLIENT / "tenfour" / "py.typed").exists()
