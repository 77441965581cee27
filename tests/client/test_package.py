"""A package of its own: what it imports, what it needs, what it installs."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import tenfour
from tenfour.version import __version__

from config.local.client_wheel import build_wheel
from tests.serving import ROOT, environment

CLIENT = ROOT / "client"
SOURCE = (CLIENT / "tenfour" / "__init__.py").read_text()


def python(code: str) -> str:
    """Run code in a process that has the client and nothing of the server."""
    argv = [sys.executable, "-c", code]
    env = environment({})
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=True)
    return done.stdout.strip()


def test_importing_it_imports_neither_django_nor_httpx2() -> None:
    code = "import sys, tenfour, tenfour.cli; print({'django', 'httpx2'} & sys.modules.keys())"
    assert python(code) == "set()"


def test_nothing_in_it_names_django() -> None:
    for path in (CLIENT / "tenfour").rglob("*.py"):
        assert "django" not in path.read_text(), path


def test_the_wheel_has_every_module_and_asks_for_httpx2_alone(wheel: Path) -> None:
    assert wheel.name == f"tenfour-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        about = f"tenfour-{__version__}.dist-info"
        metadata = archive.read(f"{about}/METADATA").decode()
        entries = archive.read(f"{about}/entry_points.txt").decode()
        forms = archive.read("tenfour/redaction/secret_forms.py")  # a link to the server's
    assert forms == (ROOT / "ledger" / "secrets" / "forms.py").read_bytes()
    sources = {str(path.relative_to(CLIENT)) for path in (CLIENT / "tenfour").rglob("*.py")}
    assert {name for name in names if name.startswith("tenfour/")} == sources | {"tenfour/py.typed"}
    needs = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
    assert needs == ["Requires-Dist: httpx2>=2.14"]
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\nRequires-Python: >=3.10\n" in metadata
    assert "tenfour = tenfour.cli:main" in entries


def test_the_same_source_gives_the_same_wheel_and_the_source_stays_clean(
    wheel: Path, tmp_path: Path
) -> None:
    before = sorted(CLIENT.iterdir())
    assert build_wheel(tmp_path).read_bytes() == wheel.read_bytes()
    assert sorted(CLIENT.iterdir()) == before
    assert [path.name for path in tmp_path.iterdir()] == [wheel.name]


def test_every_public_name_is_there_and_listed() -> None:
    code = "from tenfour import *; import tenfour; print(*sorted(tenfour.__all__))"
    done = python(code)
    typed = re.findall(r"^    from tenfour\.[\w.]+ import \w+ as (\w+)$", SOURCE, re.MULTILINE)
    assert done.split() == sorted([*typed, "__version__"])
    assert set(tenfour.__all__) <= set(dir(tenfour))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = tenfour.Nothing


def test_importing_the_client_leaves_out_what_takes_long() -> None:
    slow = {"asyncio", "logging", "subprocess", "email.utils", "httpx2", "argparse", "tempfile"}
    code = "import sys; before = set(sys.modules); from tenfour import Client, AsyncClient;"
    assert python(f"{code} print(*({slow!r} & sys.modules.keys()) - before)") == ""


def test_types_are_shipped() -> None:
    package_data = tomllib.loads((CLIENT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert package_data["package-data"] == {"tenfour": ["py.typed"]}
    assert (CLIENT / "tenfour" / "py.typed").exists()
