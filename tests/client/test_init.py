"""`tenfour init` writes hooks and MCP entries, keeps everything else, and undoes it."""

import json
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tenfour.setup.agent_files import (
    EVENTS,
    command_hook,
    our_events,
    with_hooks,
    with_mcp_json,
    with_mcp_toml,
)

from tests.client.command import Ran, run_command
from tests.serving import Tenfour

pytestmark = pytest.mark.django_db(transaction=True)

SETTINGS = """{
    "permissions": {"allow": ["Bash(ls:*)"]},
    "hooks": {
        "Stop": [
            {
                "hooks": [
                    {
                        "type": "command",
                        "command": "afplay stop.wav"
                    }
                ]
            }
        ]
    },
    "model": "opus"
}
"""
SETTINGS = json.dumps(json.loads(SETTINGS), indent=4) + "\n"
CONFIG = """# my settings
model = "gpt-5.5" # the good one

[mcp_servers.docs]   # keep
command = "docs"

# about the rest
[features]
hooks = true
"""

Init = Callable[..., Ran]
PROGRAM = Path(sys.prefix, "bin", "tenfour")


@pytest.fixture
def init(tenfour_server: Tenfour, tmp_path: Path) -> Init:
    """Runs `tenfour` in a project's folder, with an empty home."""
    folders = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": "", "CODEX_HOME": ""}
    known = {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
    }
    for name in ("home", "app"):
        (tmp_path / name).mkdir()

    def run(*args: str, env: dict[str, str] | None = None, stdin: str = "") -> Ran:
        more = folders | (known if env is None else env)
        return run_command(*args, stdin=stdin, env=more, cwd=tmp_path / "app")

    return run


def files_in(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("home", [False, True])
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_it_is_written_and_undone(agent: str, home: bool, init: Init, tmp_path: Path) -> None:
    base = tmp_path / ("home" if home else "app")
    folder = base / f".{agent}"
    folder.mkdir()
    (folder / ("settings.json" if agent == "claude" else "hooks.json")).write_text(SETTINGS)
    (folder / "config.toml").write_text(CONFIG)
    before = files_in(tmp_path)
    options = ["--agent", agent, *(["--home"] if home else [])]

    done = init("init", *options, "--yes")
    assert done.status == 0, done.err
    assert "+" in done.out and "hook --agent" in done.out
    assert ("/hooks" in done.err) == (agent == "codex")
    hooks = (folder / ("settings.json" if agent == "claude" else "hooks.json")).read_text()
    assert {"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"} <= our_events(hooks)
    assert "afplay stop.wav" in hooks
    after = files_in(tmp_path)
    connections = tmp_path / "home" / ".config" / "tenfour" / "connections.json"
    assert stat.S_IMODE(connections.stat().st_mode) == 0o600
    secret = next(iter(json.loads(connections.read_text()).values()))["token"]
    holders = [name for name, text in after.items() if secret in text]
    assert holders == [str(connections.relative_to(tmp_path))]
    assert secret not in done.out + done.err

    again = init("init", *options, "--yes")
    assert again.status == 0 and files_in(tmp_path) == after and again.out == ""
    removed = init("init", *options, "--remove", "--yes", env={})
    assert removed.status == 0, removed.err
    assert files_in(tmp_path) == before


def test_the_folder_knows_its_server_and_no_other_gets_the_token(
    init: Init, tenfour_server: Tenfour, tmp_path: Path
) -> None:
    assert init("init", "--agent", "claude", "--yes").status == 0
    assert init("pull", env={}).status == 0
    other = init("pull", env={"TENFOUR_URL": "http://127.0.0.1:1"})
    assert other.status == 2 and "TENFOUR_TOKEN is not set" in other.err
    shown = json.loads(init("headers", env={}).out)
    assert shown["Authorization"].startswith("Bearer tenfour_agt_")


def test_diffs_are_sent_only_where_a_person_says_so(init: Init, tmp_path: Path) -> None:
    path = tmp_path / "home" / ".config" / "tenfour" / "connections.json"
    for options, is_on in (([], False), (["--diffs"], True), ([], False)):
        done = init("init", "--agent", "claude", "--yes", *options)
        assert ("leave this machine" in done.err) == is_on
        (known,) = json.loads(path.read_text()).values()
        assert ("diffs" in known) == is_on


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_people_are_asked_about_calls_only_where_that_is_switched_on(
    agent: str, init: Init, tmp_path: Path
) -> None:
    path = tmp_path / "app" / (f".{agent}/" + ("settings" if agent == "claude" else "hooks"))
    path = path.with_suffix(".json")
    for options, is_on in (([], False), (["--permissions"], True), ([], False)):
        done = init("init", "--agent", agent, "--yes", *options)
        assert ("people see the calls" in done.err) == is_on
        assert ("codex exec" in done.err.partition("Codex runs")[0]) == (is_on and agent == "codex")
        assert ("PermissionRequest" in our_events(path.read_text())) == is_on
        assert ("people are asked about calls" in init("doctor", env={}).out) == is_on
        if is_on:
            [group] = json.loads(path.read_text())["hooks"]["PermissionRequest"]
            hook = group["hooks"][0]
            assert hook["command"].endswith(f" hook --agent {agent} --wait 590")
            assert hook["timeout"] == 600
    init("init", "--agent", agent, "--yes", "--permissions")
    assert init("init", "--agent", agent, "--remove", "--yes").status == 0
    assert not path.exists()


def test_claude_code_asks_over_http_for_half_a_minute(init: Init, tmp_path: Path) -> None:
    assert init("init", "--agent", "claude", "--http", "--permissions", "--yes").status == 0
    hooks = json.loads((tmp_path / "app" / ".claude" / "settings.json").read_text())["hooks"]
    timeouts = {event: groups[0]["hooks"][0]["timeout"] for event, groups in hooks.items()}
    assert {timeouts.pop(event) for event in ("PermissionRequest", "Elicitation")} == {30}
    assert set(timeouts.values()) == {5}
    assert "people are asked about calls" in init("doctor", env={}).out


@pytest.mark.parametrize(("timeout", "is_late"), [(600, False), (590, True), ("x", True)])
def test_doctor_finds_a_hook_that_is_ended_before_its_answer(
    timeout: object, is_late: bool, init: Init, tmp_path: Path
) -> None:
    init("init", "--agent", "codex", "--yes", "--permissions")
    path = tmp_path / "app" / ".codex" / "hooks.json"
    hook = command_hook("codex", "PermissionRequest", str(PROGRAM)) | {"timeout": timeout}
    path.write_text(with_hooks(path.read_text(), {"PermissionRequest": hook}))
    checked = init("doctor", env={})
    assert ("A late answer would get lost." in checked.out) == is_late
    assert "ok    Server answers permission requests" in checked.out
    exec_ = "people are asked about calls. `codex exec` never asks"
    assert (exec_ in checked.out) != is_late


def test_nothing_is_changed_without_a_yes(init: Init, tmp_path: Path) -> None:
    refused = init("init", "--agent", "claude", stdin="y\n")
    assert refused.status == 2 and "--yes" in refused.err
    assert files_in(tmp_path) == {}


def test_what_cannot_be_merged_is_left_alone(init: Init, tmp_path: Path) -> None:
    path = tmp_path / "app" / ".claude" / "settings.json"
    path.parent.mkdir()
    for text in ("{broken", "[]", '{"hooks": []}'):
        path.write_text(text)
        refused = init("init", "--agent", "claude", "--yes")
        assert refused.status == 2 and str(path) in refused.err, text
        assert files_in(tmp_path / "app") == {".claude/settings.json": text}


def test_only_an_agents_token_connects(init: Init, tenfour_server: Tenfour) -> None:
    operator = {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("operator"),
    }
    refused = init("init", "--agent", "claude", "--yes", env=operator)
    assert refused.status == 2 and "belongs to no agent" in refused.err
    assert init("init", "--agent", "codex", "--http", "--yes").status == 2


def test_the_command_is_found_outside_of_its_virtual_environment(
    init: Init, tmp_path: Path
) -> None:
    """AGT-14: each hook, and the MCP server, is named by its path."""
    init("init", "--agent", "claude", "--yes")
    hooks = json.loads((tmp_path / "app" / ".claude" / "settings.json").read_text())["hooks"]
    commands = {group["hooks"][0]["command"] for groups in hooks.values() for group in groups}
    server = json.loads((tmp_path / "app" / ".mcp.json").read_text())["mcpServers"]["tenfour"]
    assert server == {"type": "stdio", "command": str(PROGRAM), "args": ["mcp"]}
    assert commands == {f"{shlex.quote(str(PROGRAM))} hook --agent claude"}
    for argv in (["sh", "-c", commands.pop()], [server["command"], *server["args"]]):
        env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home")}
        done = subprocess.run(argv, input=b"", env=env, cwd=tmp_path / "app", capture_output=True)
        assert done.returncode == 0, done.stderr


def test_hooks_over_http_come_with_an_entry_that_needs_no_program(
    init: Init, tenfour_server: Tenfour, tmp_path: Path
) -> None:
    assert init("init", "--agent", "claude", "--http", "--yes").status == 0
    assert "command" not in (tmp_path / "app" / ".claude" / "settings.json").read_text()
    server = json.loads((tmp_path / "app" / ".mcp.json").read_text())["mcpServers"]["tenfour"]
    assert server == {
        "type": "http",
        "url": f"{tenfour_server.url}/mcp",
        "headers": {"Authorization": "Bearer ${TENFOUR_TOKEN}"},
    }


def test_doctor_checks_what_init_wrote_for_claude_code(init: Init, tmp_path: Path) -> None:
    init("init", "--agent", "claude", "--yes")
    checked = init("doctor", env={})
    assert checked.status == 0, checked.out
    assert "ok    Claude Code (this folder): hooks in" in checked.out
    assert "ok    Claude Code (this folder): MCP entry in" in checked.out
    settings = tmp_path / "app" / ".claude" / "settings.json"
    value = json.loads(settings.read_text())
    del value["hooks"]["Stop"]
    settings.write_text(json.dumps(value))
    (tmp_path / "app" / ".mcp.json").unlink()
    checked = init("doctor", env={})
    assert "warn  Claude Code (this folder): hooks are missing for Stop." in checked.out
    assert "is missing. Run: tenfour init --agent claude" in checked.out


def test_doctor_finds_an_entry_that_claude_code_does_not_connect_headless(
    init: Init, tenfour_server: Tenfour, tmp_path: Path
) -> None:
    """AGT-6."""
    init("init", "--agent", "claude", "--yes")
    old = {"url": f"{tenfour_server.url}/mcp", "headersHelper": "tenfour headers"}
    (tmp_path / "app" / ".mcp.json").write_text(json.dumps({"mcpServers": {"tenfour": old}}))
    assert "has a headersHelper" in init("doctor", env={}).out
    init("init", "--agent", "claude", "--yes")
    assert "headersHelper" not in init("doctor", env={}).out


@pytest.mark.parametrize(
    ("program", "says"), [("/no where/tenfour", "does not exist"), ("tenfour", "is not on PATH")]
)
def test_doctor_finds_a_command_that_is_not_there(
    init: Init, tmp_path: Path, program: str, says: str
) -> None:
    init("init", "--agent", "claude", "--yes")
    settings = tmp_path / "app" / ".claude" / "settings.json"
    hook = command_hook("claude", "Stop", program)
    settings.write_text(with_hooks(settings.read_text(), {"Stop": hook}))
    checked = init("doctor", env={"PATH": "/usr/bin:/bin"})
    assert checked.status == 1, checked.out
    assert f"fail  Claude Code (this folder): the command '{program}' {says}." in checked.out


def test_doctor_finds_missing_trust_in_claude_code(init: Init, tmp_path: Path) -> None:
    """AGT-6."""
    init("init", "--agent", "claude", "--yes")
    says = "warn  Claude Code (this folder): Claude Code does not trust the folder yet."
    assert says in init("doctor", env={}).out
    known = tmp_path / "home" / ".claude.json"
    for folder, trusted in ((tmp_path / "app", False), (tmp_path / "app", True), (tmp_path, True)):
        project = {"hasTrustDialogAccepted": trusted}
        known.write_text(json.dumps({"projects": {str(folder): project}}))
        assert (says in init("doctor", env={}).out) is not trusted


def test_doctor_finds_missing_trust_in_codex(init: Init, tmp_path: Path) -> None:
    init("init", "--agent", "codex", "--yes")
    checked = init("doctor", env={})
    assert "warn  Codex (this folder): the hooks are not trusted" in checked.out
    assert "warn  Codex (this folder): TENFOUR_TOKEN is not set here." in checked.out
    assert "warn  Codex (this folder): Codex does not trust the folder" in checked.out
    trusted = tmp_path / "home" / ".codex" / "config.toml"
    trusted.parent.mkdir()
    hooks = tmp_path / "app" / ".codex" / "hooks.json"
    names = [re.sub("(?<!^)([A-Z])", r"_\1", event).lower() for event in EVENTS["codex"]]
    keys = [f'[hooks.state."{hooks}:{name}:0:0"]\ntrusted_hash = "sha256:0"\n' for name in names]
    project = f'[projects."{tmp_path / "app"}"]\ntrust_level = "trusted"\n'
    trusted.write_text("\n".join([project, *keys]))
    checked = init("doctor", env={})
    assert "ok    Codex (this folder): the hooks are trusted" in checked.out
    assert "does not trust" not in checked.out
    trusted.write_text("\n".join(keys[1:]))
    assert "the hooks are not trusted" in init("doctor", env={}).out


# ---- the edits


def test_a_hook_keeps_its_place_and_an_old_one_is_replaced() -> None:
    """Codex trusts a hook by its place and its text."""
    ours = {"type": "command", "command": "tenfour hook --agent codex", "timeout": 30}
    other = {"hooks": [{"type": "command", "command": "other"}]}
    first = json.dumps({"hooks": {"Stop": [{"hooks": [ours]}, other]}})
    assert with_hooks(first, {"Stop": ours}) == first
    changed = ours | {"timeout": 60}
    again = json.loads(with_hooks(first, {"Stop": changed}))["hooks"]["Stop"]
    assert again == [other, {"hooks": [changed]}]
    shared = json.dumps({"hooks": {"Stop": [{"hooks": [ours, *other["hooks"]]}]}})
    split = json.loads(with_hooks(shared, {"Stop": ours}))["hooks"]["Stop"]
    assert split == [other, {"hooks": [ours]}]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a = 1\n",
        CONFIG,
        CONFIG.removesuffix("\n") + "\n\n# at the end\n",
        '[mcp_servers."other.tenfour"]\nurl = "x"\n',
    ],
)
def test_toml_is_kept_as_it_is(text: str) -> None:
    added = with_mcp_toml(text, "http://h")
    assert "[mcp_servers.tenfour]" in added
    assert with_mcp_toml(added, None) == text
    assert with_mcp_toml(added, "http://h") == added
    moved = added + "\n[later]\nb = 2\n"
    assert with_mcp_toml(moved, None) == text + "\n[later]\nb = 2\n"


def test_an_entry_that_was_there_is_replaced() -> None:
    old = '[mcp_servers.tenfour]\nurl = "http://old/mcp"\n\n[mcp_servers.tenfour.env]\nA = "b"\n'
    assert with_mcp_toml(old, "http://h").count("tenfour") == 1
    servers = with_mcp_json('{"mcpServers": {"tenfour": {"url": "old"}}}', {"url": "new"})
    assert json.loads(servers) == {"mcpServers": {"tenfour": {"url": "new"}}}


@pytest.mark.parametrize("program", ["tenfour", "/opt/venv/bin/tenfour", "/my apps/it's/tenfour"])
def test_a_hook_of_any_path_is_replaced_and_removed(program: str) -> None:
    """AGT-14."""
    other = {"hooks": [{"type": "command", "command": "my-tenfour-hook"}]}
    text = json.dumps({"hooks": {"Stop": [other]}})
    old = with_hooks(text, {"Stop": command_hook("claude", "Stop", program)})
    new = command_hook("claude", "Stop", "/new/tenfour")
    again = with_hooks(old, {"Stop": new})
    assert json.loads(again)["hooks"]["Stop"] == [other, {"hooks": [new]}]
    assert with_hooks(old, {}) == text


@pytest.mark.parametrize(
    "text", ["", "{}\n", '{"a": 1}', '{\n\t"hooks": {},\n\t"z": "ü"\n}\n', SETTINGS]
)
def test_json_is_kept_as_it_is(text: str) -> None:
    hooks = {"Stop": {"type": "command", "command": "tenfour hook"}}
    added = with_hooks(text, hooks)
    assert our_events(added) == {"Stop"}
    # A file in which nothing is left is removed.
    assert with_hooks(added, {}) in (text, text.strip("{}\n"), text.replace('\t"hooks": {},\n', ""))
