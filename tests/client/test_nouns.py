"""The nouns of the command line against a live server: on a terminal, in a pipe, and as JSON."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence

import pytest
from tenfour import cli
from tenfour.commands.completion import Node, read_tree
from tenfour.commands.display import UNSAFE, width_of
from tenfour.nouns.noun import HOLDERS

from ledger.access.scopes import PRESETS, SCOPES, TOKENS_WRITE
from tests.client.command import run_on_terminal
from tests.client.conftest import Run
from tests.client.worlds import World, make_world, rows
from tests.serving import Tenfour

# Colors are the only escapes on a terminal.
COLOR = re.compile(r"\x1b\[[0-9;]*m")
PATHS = {
    "instruction": "/v1/instructions",
    "standing": "/v1/standing-instructions",
    "task": "/v1/tasks",
    "plan": "/v1/plans",
    "agent": "/v1/agents",
    "budget": "/v1/budgets",
    "pool": "/v1/pools",
    "escalation": "/v1/escalations",
    "permission": "/v1/permissions",
    "dead-letter": "/v1/dead-letters",
    "pattern": "/v1/patterns",
    "session": "/v1/sessions",
    "event": "/v1/events",
    "token": "/v1/tokens",
}
UNKNOWN = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def world(tenfour_server: Tenfour) -> World:
    return make_world(tenfour_server)


def test_every_noun_is_listed_as_a_table_as_lines_and_as_json(run: Run, world: World) -> None:
    env = world.env("manager")
    assert set(PATHS) == set(cli.NOUNS) - {"on-call", "target"}  # two kinds, and rows without an id
    for noun, path in PATHS.items():
        with world.client("manager") as client:
            wanted = rows(client, path, limit="30")
        assert wanted, noun
        piped = run(noun, "list", env=env)
        assert (piped.status, piped.err) == (0, ""), noun
        lines = piped.out.splitlines()
        assert len(lines) == len(wanted) and "\x1b" not in piped.out
        # No head, the same columns in each line, whole ids, nothing cut.
        assert len({line.count("\t") for line in lines}) == 1 and "…" not in piped.out
        for line, row in zip(lines, wanted, strict=True):
            assert row["id"] in line.split("\t")
        as_json = run(noun, "list", "--json", env=env)
        # A call notes the time in its own token and agent; everything else is the API's JSON.
        assert without_use(json.loads(as_json.out)) == without_use(wanted), noun
        status, shown = run_on_terminal(noun, "list", env=env, width=90)
        table = COLOR.sub("", shown)
        assert status == 0 and shown != table, noun
        head, *body = table.splitlines()
        assert head == head.upper() and len(body) >= len(wanted)
        assert wanted[0]["id"][-8:] in table
        check_clean(piped.out, table, as_json.out)


def without_use(listed: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    noted = {"last_used_at", "last_seen_at", "silent"}
    return [{name: row[name] for name in row.keys() - noted} for row in listed]


def check_clean(*texts: str) -> None:
    for text in texts:
        assert not UNSAFE.search(text), repr(UNSAFE.search(text))
        assert "owned" not in text or "\\u" in text


def test_every_noun_shows_one_row(run: Run, world: World) -> None:
    env = world.env("manager")
    for noun, id in world.ids.items():
        piped = run(noun, "show", id, env=env)
        assert (piped.status, piped.err) == (0, ""), (noun, piped.err)
        facts = dict(line.split(":\t", 1) for line in piped.out.splitlines() if ":\t" in line)
        assert facts["id"] == id
        as_json = run(noun, "show", id[-8:], "--json", env=env)
        whole = json.loads(as_json.out)
        assert (whole.get("plan") if noun == "plan" else whole)["id"] == id
        status, shown = run_on_terminal(noun, "show", id, env=env)
        assert status == 0 and id in shown
        check_clean(piped.out, COLOR.sub("", shown), as_json.out)
    for noun, name in (("agent", "coder"), ("plan", "03-01"), ("task", "03-01:task-2")):
        assert run(noun, "show", name, env=env).status == 0, noun
    _, prompt = run_on_terminal("task", "prompt", world.ids["task"], env=env)
    check_clean(COLOR.sub("", prompt), run("plan", "status", "03-01", env=env).out)
    plan = run("plan", "show", "03-01", env=env).out
    assert "03-01:task-1\tqueued" in plan
    task = run("task", "show", world.ids["task"], env=env).out
    assert "-- attempts\n1\tfailure\t" in task and "TypeError" in task


def test_fields_choose_what_a_script_reads(run: Run, world: World) -> None:
    """AGT-31: as in gh, on every list and every row."""
    env, id = world.env("manager"), world.ids["task"]
    for noun in PATHS:
        found = run(noun, "list", "--fields", "id", env=env)
        assert (found.status, found.err) == (0, ""), noun
        assert all(list(row) == ["id"] for row in json.loads(found.out))
    shown = run("agent", "show", "coder", "--json", "--fields", "name, breaker.state", env=env)
    assert json.loads(shown.out) == {"name": "coder", "breaker.state": "closed"}
    wrong = run("task", "show", id, "--fields", "id,stat", env=env)
    assert wrong.status == 2 and wrong.err.startswith("tenfour: There is no field stat.")
    assert "The fields are: id, " in wrong.err
    missing = run("task", "list", "--jq", ".", env={**env, "PATH": "/nowhere"})
    assert missing.status == 1 and "--jq needs the program jq." in missing.err
    follows = run("event", "list", "--follow", "--fields", "id", env=env)
    assert follows.status == 2 and "pipe it to jq" in follows.err


@pytest.mark.skipif(shutil.which("jq") is None, reason="NO JQ: --jq was not tried.")
def test_jq_reads_the_chosen_fields(run: Run, world: World) -> None:
    env, id = world.env("manager"), world.ids["task"]
    only = run("task", "show", id, "--fields", "state,id", "--jq", ".id", env=env)
    assert (only.status, only.out) == (0, f"{id}\n")
    broken = run("task", "list", "--jq", ".[", env=env)
    assert broken.status == 2 and "jq: error" in broken.err


def test_short_ids_are_unambiguous_or_list_candidates(run: Run, world: World) -> None:
    env, id = world.env(), world.ids["instruction"]
    for short in (id[-8:], f"…{id[-8:]}", f"...{id[-8:]}", id[:30], id.upper(), id[:18]):
        found = run("instruction", "show", short, "--json", env=env)
        assert found.status == 0 and json.loads(found.out)["id"] == id, short
    ambiguous = run("task", "show", world.ids["task"][:4], env=env)
    assert (ambiguous.status, ambiguous.out) == (1, "")
    sentence, *candidates = ambiguous.err.splitlines()
    assert "short id of several tasks" in sentence
    with world.client() as client:
        assert [line.split()[0] for line in candidates] == [
            row["id"] for row in rows(client, "/v1/tasks")
        ]
    check_clean(ambiguous.err)
    for text in (UNKNOWN, "00000000", "abc", "no-such-thing", "x/../y"):
        missing = run("task", "show", text, env=env)
        assert (missing.status, missing.out) == (1, "") and len(missing.err.splitlines()) == 1
    assert (
        "`tenfour dead-letter list` lists them" in run("dead-letter", "show", "0" * 8, env=env).err
    )


def test_rows_of_another_project_are_unknown(run: Run, world: World, web_server: str) -> None:
    from ledger.models import Project

    other = make_world(Tenfour(web_server, Project.objects.create(name="other")))
    for noun, id in world.ids.items():
        for text in (id, id[-8:]):
            foreign = run(noun, "show", text, env=other.env("manager"))
            assert (foreign.status, foreign.out) == (1, ""), noun


def test_tables_are_cut_to_the_terminal_and_colored_unless_told_not_to(world: World) -> None:
    env = world.env()
    for width in (40, 60, 200):
        _, shown = run_on_terminal("event", "list", env=env, width=width)
        lines = COLOR.sub("", shown).splitlines()
        assert len(lines) > 3 and max(map(width_of, lines)) <= width, width
        assert all(line.split()[-1].isalnum() for line in lines[1:]), "ids are whole"
    for more in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"CLICOLOR": "0"}):
        assert "\x1b" not in run_on_terminal("task", "list", env=env, more=more)[1]
    _, shown = run_on_terminal("task", "list", "--limit", "1", env=env)
    assert "There are more: --limit N shows more." in shown
    _, shown = run_on_terminal("task", "list", "--state", "skipped", env=env)
    assert shown == "No tasks match.\n"


def test_lists_have_limits_filters_and_plurals(run: Run, world: World) -> None:
    env = world.env()
    assert len(run("tasks", "--limit", "2", env=env).out.splitlines()) == 2
    assert run("tasks", "--state", "failed", env=env).out.startswith(world.ids["task"])
    assert run("tasks", "--state", "skipped", env=env).out == ""
    assert run("tasks", "--state", "skipped", "--json", env=env).out == "[]\n"
    assert run("tasks", "--search", "Shi", "--plan", "03-01", env=env).out.count("\n") == 1
    assert run("esc", "list", "--state", "open", env=env).out.startswith(world.ids["escalation"])
    assert run("instructions", "--agent", "coder", env=env).out.count("\n") == 1
    assert run("events", "--kind", "task.failed", env=env).out.count("\n") == 1
    with world.client() as client:
        for number in range(105):
            client.instructions.send("coder", f"Count {number}")
    assert run("instructions", "--limit", "103", env=env).out.count("\n") == 103
    for args, says in (
        (["tasks", "--limit", "0"], "--limit"),
        (["tasks", "--limit", "x"], "--limit"),
        (["task", "list", "--colour"], "--colour"),
        (["task", "shw"], "Did you mean `tenfour task show`?"),
        (["task", "--json"], "needs a verb"),
        (["taks"], "Did you mean `tenfour task`?"),
    ):
        wrong = run(*args, env=env)
        assert (wrong.status, wrong.out) == (2, "") and says in wrong.err, args


def test_refusals_speak_the_words_of_the_command_line(run: Run, world: World) -> None:
    env = world.env()
    for args, says in (
        (["tasks", "--state", "gone"], "--state: 'gone' is not a state"),
        (["events", "--kind", "x"], "--kind: 'x' is not a kind"),
        (["events", "--since", "soon"], "--since: "),
        (["tasks", "--search", "x" * 300], "--search: "),
        (["tasks", "--agent", "codr"], "codr"),
    ):
        refused = run(*args, env=env)
        assert (refused.status, refused.out) == (1, ""), args
        assert says in refused.err, refused.err
        assert not re.search(r"(?<![\w:/])/[a-z]", refused.err.replace("/v1/", "")), refused.err


@pytest.mark.parametrize(
    ("env", "status", "says"),
    [
        ({"TENFOUR_URL": "http://127.0.0.1:1", "TENFOUR_TOKEN": "tenfour_x"}, 69, "make up"),
        ({"TENFOUR_URL": "http://127.0.0.1:1"}, 2, "TENFOUR_TOKEN is not set"),
    ],
)
def test_a_noun_without_a_server_or_a_token(
    run: Run, env: dict[str, str], status: int, says: str
) -> None:
    failed = run("task", "list", env=env)
    assert (failed.status, failed.out) == (status, "") and says in failed.err


def test_a_wrong_token_and_a_missing_scope_are_said_in_plain_words(run: Run, world: World) -> None:
    wrong = run("task", "list", env=world.env() | {"TENFOUR_TOKEN": "tenfour_x"})
    assert wrong.status == 1 and "not a Tenfour token" in wrong.err
    refused = run("events", env=world.env("agent"))
    assert (refused.status, refused.out) == (1, "")
    assert "`tenfour event list` needs the scope events:read, which this token" in refused.err
    assert "a producer's, an operator's or a reader's token" in refused.err
    assert "Needs the scope events:read" in run("help", "event", "list").out


def test_the_help_names_the_tokens_that_have_each_scope() -> None:
    names = {
        "an agent's": "agent",
        "a producer's": "orchestrator",
        "an operator's": "operator",
        "a reader's": "reader",
    }
    for scope, words in HOLDERS.items():
        assert scope in SCOPES
        kinds = {kind.value for kind, scopes in PRESETS.items() if scope in scopes}
        named = (
            set(names.values())
            if words == "any token"
            else {kind for name, kind in names.items() if name in words}
        )
        if scope == "instructions:ack":
            assert named == {"agent"} and named < kinds
        else:
            assert named == (kinds or {"operator"}) and (kinds or scope == TOKENS_WRITE), scope


def test_help_needs_no_server_and_lists_nouns_and_verbs(run: Run) -> None:
    alone = run()
    assert alone.status == 0
    for node in read_tree():
        assert f"\n    {node.name} " in alone.out
        if node.verbs:
            check_noun(run, node)


def check_noun(run: Run, node: Node) -> None:
    for args in ([node.name], ["help", node.name], [node.name, "--help"]):
        shown = run(*args)
        assert shown.status == 0 and all(f"\n  {verb.name} " in shown.out for verb in node.verbs)
    # A target has no id.
    reading = {"on-call": {"policies", "policy"}, "target": {"list"}}.get(
        node.name, {"list", "show"}
    )
    assert reading <= {verb.name for verb in node.verbs}
    for verb in node.verbs[-1:]:
        shown = run("help", node.name, verb.name)
        assert shown.status == 0 and "Needs the scope" in " ".join(shown.out.split())


@pytest.mark.parametrize(
    ("verb", "question"),
    [
        (("agent", "reset"), "Cancel all unsettled instructions of {id}?"),
        (("plan", "abort"), "Abort the plan {id}?"),
        (("standing", "retire"), "End the rule {id} permanently?"),
        (("task", "abort"), "Abort the task {id}?"),
        (("token", "revoke"), "Revoke the token {id}?"),
    ],
)
def test_what_cannot_be_undone_is_asked_on_a_terminal(
    verb: tuple[str, str], question: str, run: Run, world: World
) -> None:
    """AGT-31."""
    noun, _ = verb
    env, id = world.env("manager"), world.ids[noun]
    if noun == "task":  # the world's own is over
        with world.client("manager") as client:
            name = client.agents.get(world.ids["agent"]).name
            id = client.tasks.enqueue(name, "code").id
    before = run(noun, "show", id, env=env).out
    status, shown = run_on_terminal(*verb, id, env=env, typed="n\n")
    assert status == 1 and question.format(id=id) in shown.replace("\n", " ")
    assert "Nothing was changed." in shown and run(noun, "show", id, env=env).out == before
    done, shown = run_on_terminal(*verb, id, "--yes", env=env)
    assert done == 0 and "[y/N]" not in shown
