"""What the browser loads: as recorded, small, and nothing inline."""

import gzip
import hashlib
import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from ledger.models import Agent
from tests.dashboard.test_read_only import make_world
from tests.retries.budgets.spending import set_budget

ROOT = Path(django_settings.BASE_DIR)
STATIC = ROOT / "dashboard" / "static"
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
SHEET, CLASSES = re.compile(r"tenfour/css/(\w+)[.\w]*\.css"), re.compile(r' class="([^"]*)"')
# the classes that each stylesheet has rules for
STYLED = {
    path.stem: set(re.findall(r"\.([a-zA-Z][\w-]*)", path.read_text()))
    for path in (STATIC / "tenfour" / "css").glob("*.css")
}
ALL_STYLED = set().union(*STYLED.values())


def test_vendored_scripts_are_as_recorded() -> None:
    recorded = (STATIC / "vendor" / "VENDORED.md").read_text()
    for script in (STATIC / "vendor").glob("*.js"):
        assert f"`{hashlib.sha256(script.read_bytes()).hexdigest()}`" in recorded, script.name
        assert f"`{script.name}`" in recorded


def test_every_script_that_a_page_loads_is_ours_or_recorded() -> None:
    loaded = {name for path in TEMPLATES for name in re.findall(r"'(\S+\.js)'", path.read_text())}
    theirs = {name for name in loaded if not name.startswith("tenfour/js/")}
    assert theirs == {f"vendor/{path.name}" for path in (STATIC / "vendor").glob("*.js")}
    assert loaded - theirs == {f"tenfour/js/{path.name}" for path in STATIC.glob("tenfour/js/*.js")}


def test_all_that_is_loaded_stays_small(tmp_path: Path, settings: Settings) -> None:
    """CSS, scripts and fonts under 189 KB, as the server stores and sends them."""
    settings.STATIC_ROOT = tmp_path
    storage = {"BACKEND": "config.rendering.staticfiles.GzippedManifest"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": storage}
    call_command("collectstatic", interactive=False, verbosity=0)
    names = staticfiles_storage.hashed_files.items()
    sizes = {
        name: (tmp_path / (hashed if name.endswith(".woff2") else f"{hashed}.gz")).stat().st_size
        for name, hashed in names
        if name.endswith((".css", ".js", ".woff2")) and (STATIC / name).exists()
    }
    assert len(sizes) > 60
    assert sum(sizes.values()) < 189_500


@pytest.mark.django_db
def test_pages_are_compressed(client: Client) -> None:
    plain = client.get("/sign-in/")
    packed = client.get("/sign-in/", headers={"Accept-Encoding": "gzip"})
    assert packed["Content-Encoding"] == "gzip" and len(packed.content) < len(plain.content) / 2
    assert b"<h1" in gzip.decompress(packed.content)


@pytest.mark.django_db
def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere(client: Client) -> None:
    assert client.get("/sign-in/")["Content-Security-Policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


def found(pattern: str, paths: Iterable[Path]) -> dict[str, str]:
    """Return the first match of a pattern in each file that has one."""
    matches = {path.name: re.search(pattern, path.read_text()) for path in paths}
    return {name: match[0] for name, match in matches.items() if match}


def test_nothing_is_inline() -> None:
    assert len(TEMPLATES) > 100
    assert not found(r"\sstyle=|\son[a-z]+=|<style|hx-on|javascript:|\|safe\b", TEMPLATES)
    assert not found(r"<script(?![^>]*\ssrc=)", TEMPLATES)
    assert not found(r"(src|href)=\"(https?:)?//", TEMPLATES)


def test_lines_of_templates_styles_and_scripts_fit_into_120_columns() -> None:
    ours = [*STATIC.glob("tenfour/css/*.css"), *STATIC.glob("tenfour/js/*.js")]
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (*TEMPLATES, *ours)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 120
    ]
    assert not long


def test_scripts_make_no_markup_and_no_code_from_text() -> None:
    scripts = list(STATIC.glob("tenfour/js/*.js"))
    assert len(scripts) > 5
    assert not found(r"innerHTML|outerHTML|insertAdjacentHTML|\beval\b|new Function", scripts)


def test_every_icon_that_a_template_names_is_drawn() -> None:
    drawn = set(re.findall(r'id="([a-z0-9-]+)"', (STATIC / "tenfour" / "icons.svg").read_text()))
    code = "".join(path.read_text() for path in (ROOT / "dashboard").rglob("*.py"))
    named = set(re.findall(r'"((?:s|u|n)-[a-z0-9-]+)"', code))
    for path in TEMPLATES:
        named |= set(re.findall(r'{% icon "([^"]+)"', path.read_text()))
    assert named <= drawn


def test_the_icon_that_browsers_ask_for_is_served(client: Client) -> None:
    response = client.get("/favicon.ico")
    content = b"".join(response.streaming_content)  # type: ignore[attr-defined]
    assert response.status_code == 200
    assert content.startswith(b"\0\0\1\0\3\0")  # an icon file with three sizes


def test_a_page_loads_the_stylesheets_of_its_classes(
    agent: Agent, browser: Client, now: datetime
) -> None:
    set_budget(agent, 1000, now=now)  # a budget of the project is on tasks and plans, too
    unstyled = {}
    for name, address in make_world(agent, browser, now).items():
        page = browser.get(address).content.decode()
        loaded = set().union(*(STYLED[sheet] for sheet in SHEET.findall(page)))
        classes = {each for names in CLASSES.findall(page) for each in names.split()}
        if missing := sorted((classes & ALL_STYLED) - loaded):
            unstyled[name] = missing
    assert unstyled == {}
