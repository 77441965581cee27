"""Standing instructions in the Python client and the command, on a real server."""

import json
from pathlib import Path

import pytest
from tenfour import Client, TenfourError

from tests.client.conftest import Run
from tests.serving import Tenfour

RULE = {
    "on": {"event": "signal", "type": "fs_write", "match": {"path": {"glob": "src/**"}}},
    "content": "Run the tests after changing code.",
    "expect": {"type": "fs_command", "match": {"line": "make test"}},
    "hold_stop": True,
}


def test_a_rule_from_its_creation_to_its_end(producer: Client, agent_client: Client) -> None:
    rules = producer.standing_instructions
    made = rules.create(
        RULE["on"],  # type: ignore[arg-type]
        "Run the tests after changing code.",
        expect={"type": "fs_command", "match": {"line": "make test"}},
        hold_stop=True,
        paused=True,
    )
    assert (made.state, made.version, made.hold_stop) == ("draft", 1, True)
    assert rules.try_saved(made.id, "fs_write", {"path": "src/a.py"}).fires
    assert not rules.try_saved(made.id, "fs_write", {"path": "docs/a.md"}).fires
    assert rules.resume(made.id).state == "active"
    agent_client.signal("fs_write", {"path": "src/a.py"})
    held = agent_client.standing_instructions.hold("one")
    assert held.hold and held.text.startswith(made.content)
    [acknowledged] = agent_client.signal("fs_command", {"line": "make test"})
    assert not agent_client.standing_instructions.hold().hold
    assert producer.instructions.get(acknowledged).raw["rule"] == made.id
    changed = rules.change(made.id, 2, content="Test it", agent=None)
    assert (changed.content, changed.version) == ("Test it", 3)
    with pytest.raises(TenfourError) as stale:
        rules.change(made.id, 2, content="Late")
    assert stale.value.code == "version_mismatch"
    assert [each.id for each in rules.list(state=["active", "paused"])] == [made.id]
    assert rules.pause(made.id).state == "paused"
    assert rules.retire(made.id).state == "retired" and list(rules.list()) == []


def test_the_command(run: Run, producer: Client, tenfour_server: Tenfour, tmp_path: Path) -> None:
    env = {"TENFOUR_URL": tenfour_server.url, "TENFOUR_TOKEN": producer.settings.token}
    path = tmp_path / "rule.json"
    path.write_text(json.dumps(RULE))
    made = run("standing", "create", str(path), "--draft", env=env)
    assert made.status == 0, made.err
    id = made.out.strip()
    assert run("standing", "list", env=env).out.split()[:4] == [id, "draft", "signal", "fs_write"]
    assert "active" in run("standing", "resume", id[-8:], env=env).out
    fires = run("standing", "try", id, "fs_write", '{"path": "src/a.py"}', env=env)
    assert fires.status == 0 and "path src/a.py is in src/**" in fires.out
    misses = run("standing", "try", id, "fs_write", '{"path": "a.py"}', env=env)
    assert misses.status == 3 and "It would not fire." in misses.err
    assert json.loads(run("standing", "show", id, "--json", env=env).out)["state"] == "active"
    assert json.loads(run("standing", "list", "--json", env=env).out)[0]["id"] == id
    assert "paused" in run("standing", "pause", id, env=env).out
    assert "retired" in run("standing", "retire", id, env=env).out
    assert run("standing", "show", "00000000", env=env).status == 1
    path.write_text("[]")
    assert run("standing", "create", str(path), env=env).status == 2
    assert run("standing", "create", str(tmp_path / "none.json"), env=env).status == 2
