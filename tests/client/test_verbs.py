"""Every verb of every noun, run on a live server: what it does, and whose token may do it."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.urls import resolve
from django.utils import timezone
from tenfour import cli
from tenfour.commands.completion import read_tree

from ledger.access.scopes import PRESETS, TOKENS_WRITE
from ledger.authorization.roles import Role
from ledger.journal import SYSTEM, Stamp
from ledger.models import DeadLetter, Membership, Task
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.states import Answer
from tests.client.command import Ran
from tests.client.conftest import Run
from tests.client.worlds import PLAN, RULE, World, ask_permission, make_world
from tests.ledger.sessions.transcript_files import as_lines, claude_line
from tests.serving import Tenfour

VERBS = {
    (node.name, verb.name): verb for node in read_tree() for verb in node.verbs
}  # fmt: skip


# What verbs write beside their output.
NOTES = {
    "standing try": "It would fire.",
    "permission try-rule": "It would have decided 1 of 2 calls in 30 days; people decided 0 of them "
    "the other way.",
    "plan confirm": "03-03:task-1: make test",
    "session import": "1 new message in the session 'Look evil 日本語 again'",
}
PROPOSING = {
    "ref": "03-03",
    "title": "Release 3",
    "tasks": [{"title": "Check", "agent": "coder", "action": "check", "verify": "make test"}],
}


@pytest.fixture
def world(tenfour_server: Tenfour) -> World:
    return make_world(tenfour_server)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs the command in this process: a hundred processes would take a minute to start."""

    def run(*args: str, env: dict[str, str]) -> Ran:
        for name, value in (env | {"TENFOUR_STATE": str(tmp_path / "state")}).items():
            monkeypatch.setenv(name, value)
        status = cli.main(args)
        return Ran(status, *capfd.readouterr())

    return run


def test_every_verb_does_what_it_says(run: Run, world: World, tmp_path: Path) -> None:
    """One project, each verb once, in an order in which all of them are possible."""
    rule, plan = tmp_path / "rule.json", tmp_path / "plan.json"
    rule.write_text(json.dumps(RULE))
    plan.write_text(json.dumps(PLAN | {"ref": "03-02"}))
    ids = {noun: id[-8:] for noun, id in world.ids.items()}
    tried = set()

    def do(line: str, *more: str, token: str = "manager") -> str:
        noun, verb, *rest = line.format(**ids).split()
        tried.add((noun, verb))
        done = run(noun, verb, *rest, *more, env=world.env(token))
        note = NOTES.get(f"{noun} {verb}")
        noted = f"tenfour: {note}\n" if note else ""
        assert (done.status, done.err) == (0, noted), (line, done)
        return done.out

    for noun in world.ids:
        ids[noun.replace("-", "_")] = ids[noun]
        do(f"{noun} list")
        do(f"{noun} show {ids[noun]}")
        page = do(f"{noun} show {ids[noun]} --web").strip()
        assert page.startswith(f"{world.server.url}/"), noun
        assert resolve(urlsplit(page).path).app_name == "dashboard", page
    assert "coder" in do("agent accounts")
    budget = do("budget set --period day", "2M tokens").strip()
    assert "2,000,000 tokens per day (UTC)" in do("budget list --scope project")
    assert "2,000,000 tokens per day (UTC)" in do(f"budget show {budget[-8:]}")
    granted = do(f"budget grant {budget[-8:]}", "5k tokens")
    assert granted == f"{budget} 0 tokens (0%) of 2,005,000 tokens per day (UTC)\n"
    assert do(f"budget remove {budget[-8:]}") == f"{budget} removed\n"
    price = do("budget set-price own 1 2 --cache-read 0.1").strip()
    assert "claude-sonnet-4-5" in do("budget prices") and price in do("budget prices --json")
    assert do(f"budget remove-price {price}") == f"{price} removed\n"
    assert do("target set wait 95 120 --type code") == "type code wait 95% within 120 s\n"
    assert do("target set ack 90 60 --agent coder") == "agent coder ack 90% within 60 s\n"
    shown = [line.split("\t")[:4] for line in do("target list").splitlines()]
    assert shown == [
        ["agent coder", "ack", "90% within 60 s", "ci"],
        ["type code", "wait", "95% within 120 s", "ci"],
    ]
    assert do("target remove ack --agent coder") == "agent coder ack removed\n"
    assert [row["type"] for row in json.loads(do("target list --json"))] == ["code"]
    sent = do("instruction send coder", "Look again").strip()
    assert do(f"instruction ack {sent[-8:]}", token="agent") == f"{sent} acknowledged\n"
    assert do("instruction cancel {instruction} --reason", "old").endswith(" cancelled\n")
    made = do("standing create", str(rule), "--draft").strip()
    assert do(f"standing resume {made[-8:]}") == f"{made} active\n"
    assert do(f"standing try {made} fs_write", '{"path": "src/a.py"}').startswith("yes ")
    assert do(f"standing pause {made}") == f"{made} paused\n"
    rule.write_text(json.dumps({"content": "Run all tests"}))
    changed = json.loads(do(f"standing change {made} --json", str(rule)))
    assert changed["content"] == "Run all tests"
    assert do(f"standing retire {made} --json").startswith("{")
    task = do("task create coder code").strip()
    changed = do(f"task change {task[-8:]} --priority 5 --json")
    assert json.loads(changed)["priority"] == 5
    assert "code" in do(f"task prompt {task[-8:]}")
    assert do("task pause-type moving --note", "the disk is full") == "moving paused\n"
    assert do("task types").endswith(" by ci: the disk is full\n")
    assert json.loads(do("task types --json"))[0]["type"] == "moving"
    assert do("task resume-type moving") == "moving active\n" and do("task types") == ""
    assert do(f"task abort {task[-8:]} --reason", "No longer needed") == f"{task} aborted\n"
    assert do("plan import", str(plan)).splitlines()[-1]
    assert "03-02:task-1" in do("plan status 03-02")
    assert do("plan forecast 03-02").startswith("No forecast. ")
    assert " paused, run 1" in do("plan pause 03-02 --reason frozen")
    assert " active, run 1" in do("plan resume 03-02")
    assert json.loads(do("plan abort 03-02 --json"))["state"] == "aborted"
    assert " active, run 2" in do("plan restart 03-02")
    assert json.loads(do("plan rename 03-02 --json", "Release 2"))["title"] == "Release 2"
    held = json.loads(
        do(f"plan change 03-02 --not-before {later_by(1)} --exclusive-files yes --json")
    )
    assert held["exclusive_files"] and held["not_before"]
    plan.write_text(json.dumps(PROPOSING))
    do("plan import", str(plan))
    [checked] = json.loads(do("plan confirm 03-03 --yes --json"))["tasks"]
    assert checked["proposed_command"] is None
    listed = tmp_path / "list.md"
    listed.write_text("# Later\n\n- [ ] Write it\n")
    synced = do("plan sync --ref 03-04 --agent coder --yes", str(listed))
    assert synced == "added      03-04:task-1\n"
    talk = tmp_path / "talk.jsonl"
    talk.write_bytes(as_lines(claude_line(7, "user", "Look at the parser")))
    talked = do("session import --agent coder", str(talk)).split()[-1]
    assert do(f"session flush {talked[-8:]}")
    assert do(f"session retry {talked[-8:]} --tracker todo")
    assert do("agent register writer").startswith("writer ")
    assert do("agent pause writer") == "writer paused\n"
    assert do("agent resume writer") == "writer new\n"
    limited = json.loads(do("agent change writer --concurrency 2 --json"))
    assert limited["concurrency"] == 2
    assert do("agent trip writer --reason broken") == "writer open breaker\n"
    assert do("agent keep-open writer --reason broken") == "writer open breaker\n"
    assert do("agent close writer") == "writer new\n"
    assert do("agent reset writer") == "0 cancelled\n"
    assert do("pool create reviewers coder").startswith("reviewers ")
    assert do("pool add reviewers writer").endswith(" of 2 have room\n")
    assert do("pool remove reviewers coder") == "reviewers active, 0 of 1 have room\n"
    assert do("pool pause reviewers") == "reviewers paused, 0 of 1 have room\n"
    assert do("pool resume reviewers") == "reviewers active, 0 of 1 have room\n"
    assert json.loads(do("pool change reviewers --retry-on same --json"))["retry_on"] == "same"
    assert "reviewers" in do("pool list") and "writer (silent)" in do("pool show reviewers")
    waits = do("task create reviewers code --retry-on other").strip()
    assert json.loads(do(f"task show {waits[-8:]} --json"))["pool"] == "reviewers"
    assert do("pool delete reviewers --move-to writer --yes") == "1 moved\n"
    person = make_member(world)
    rota = do(
        f"on-call add-rota nights --fallback {person} --shift", f"mon-fri 18:00-08:00 {person}"
    )
    rota = rota.strip()
    assert "nights" in do("on-call rotas") and person in do(f"on-call rota {rota[-8:]}")
    moved = do(f"on-call change-rota {rota[-8:]} --timezone Europe/Berlin")
    assert moved == f"{rota} nights\n"
    step = "0 tell rota:nights"
    policy = do("on-call add-policy late --within 60 --step", step).strip()
    assert "late" in do("on-call policies") and step in do(f"on-call policy {policy[-8:]}")
    assert do(f"on-call change-policy {policy[-8:]} --off") == f"{policy} late\n"
    assert do(f"on-call delete-policy {policy[-8:]}") == f"{policy} deleted\n"
    assert do(f"on-call delete-rota {rota[-8:]}") == f"{rota} deleted\n"
    assert do("escalation assign {escalation}").endswith("unassigned\n")
    later = later_by(1)
    assert later[:13] in do(f"escalation snooze {{escalation}} {later}")
    assert do("escalation snooze {escalation}").endswith("in the inbox\n")
    assert do("escalation comment {escalation}", "I look at it.").endswith("open\n")
    answer_on_the_page(world.ids["escalation"])
    assert " open" in do("escalation undo {escalation}")
    assert " resolved" in do("escalation resolve {escalation}", "answer: yes")
    asked = ask(world)
    assert do(f"escalation withdraw {asked[-8:]}", token="agent") == f"{asked} withdrawn\n"
    (denied,) = json.loads(do("permission list --state waiting --json"))
    assert " resolved" in do("permission deny {permission}", "Use pnpm instead.")
    with world.client("agent") as agent:
        allowed = ask_permission(agent, "npm test")
    assert " resolved" in do(f"permission allow {allowed[-8:]}")
    shown = do(f"permission show {denied['id']}")
    assert "denied by ci: Use pnpm instead." in " ".join(shown.split())
    assert do("permission try-rule Bash", "npm test") == "npm test\n"
    rule_id = do("permission add-rule Bash", "npm test").strip()
    assert "npm test" in do("permission rules --state active")
    assert do(f"permission revoke-rule {rule_id[-8:]}") == f"{rule_id} revoked\n"
    do("pattern failures {pattern}")
    assert do("pattern ignore {pattern} --note known").endswith("ignored\n")
    assert do("pattern reopen {pattern}").endswith("open\n")
    assert do("pattern resolve {pattern} --note fixed").endswith("resolved\n")
    do("pattern reopen {pattern}")
    assert do("pattern assign {pattern}", person).endswith(f" {person}\n")
    assert len(json.loads(do(f"pattern list --assignee {person} --json"))) == 1
    assert do("pattern comment {pattern}", "Known since May.").endswith("open\n")
    assert "1 replayed" in do("pattern retry {pattern}")
    letter, waiting = fail_task(world)
    assert do(f"dead-letter assign {letter[-8:]}", person).endswith(f" {person}\n")
    assert do(f"dead-letter comment {letter[-8:]}", "I look at it.").strip() == letter
    assert do(f"task assign {waiting[-8:]}").endswith("unassigned\n")
    assert do(f"task comment {waiting[-8:]}", "It waits.").endswith(" blocked\n")
    dismissed = do(f"dead-letter dismiss {letter} --dependents block --note known")
    assert dismissed == f"{letter} dismissed\n"
    assert do(f"task unblock {waiting[-8:]}") == f"{waiting} queued\n"
    letter, _ = fail_task(world)
    assert do(f"dead-letter replay {letter[-8:]}").split()[:2] == [letter, "replayed"]
    letter, _ = fail_task(world)
    failed = DeadLetter.objects.get(pk=letter).task_id
    assert do(f"task output {failed} --follow") == "1 failed\n"
    terms = ("--payload", '{"action": "Build it"}', "--budget", "9k tokens", "--max-attempts", "7")
    retried = do(f"task retry {failed} --note fixed --agent coder", *terms)
    assert Task.objects.get(replay_of=failed).max_attempts == 7
    assert retried == f"{Task.objects.get(replay_of=failed).pk} queued\n"
    secret = do("token create --kind reader --name dash").strip()
    assert (
        secret.startswith("tenfour_ro_")
        and run("tasks", env={"TENFOUR_URL": world.server.url, "TENFOUR_TOKEN": secret}).status == 0
    )
    reader = json.loads(do("token list --json"))[0]["id"]
    assert do(f"token rotate {reader[-8:]}").startswith("tenfour_ro_")
    assert do(f"token revoke {reader}").endswith(" revoked\n")
    assert tried == set(VERBS)


def make_member(world: World) -> str:
    user = User.objects.create_user("mara")
    Membership.objects.create(user=user, project=world.server.project, role=Role.OPERATOR)
    return "mara"


def later_by(hours: int) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def answer_on_the_page(escalation: str) -> None:
    answering.answer(
        UUID(escalation),
        Choice(Answer.RETRY),
        among=Escalation.objects.all(),
        stamp=Stamp(SYSTEM, timezone.now()),
        channel="page",
        undo_for=timedelta(minutes=10),
    )


def ask(world: World) -> str:
    """Ask about a new task; return the escalation's id."""
    with world.client() as operator, world.client("agent") as agent:
        (claim,) = agent.tasks.claim(task=operator.tasks.enqueue("coder", "code").id)
        return agent.tasks.ask(claim.attempt.id, "May I?").id


def fail_task(world: World) -> tuple[str, str]:
    """Fail a task for good; return its dead letter, and a task that needs it."""
    with world.client() as operator, world.client("agent") as agent:
        task = operator.tasks.enqueue("coder", "code", max_attempts=1, on_exhausted="dead_letter")
        waiting = operator.tasks.enqueue("coder", "code", needs=[task.id])
        (claim,) = agent.tasks.claim(task=task.id)
        agent.tasks.send_output(claim.attempt.id, 0, "1 failed\n")
        agent.tasks.report(claim.attempt.id, "failure", failure={"message": "Broken"})
        return next(operator.dead_letters.list(state="open")).id, waiting.id


def test_a_verb_that_the_token_may_not_use_names_the_scope(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir("/")
    talk = tmp_path / "talk.jsonl"
    talk.write_bytes(as_lines(claude_line(1, "user", "Look at the parser")))
    with world.client() as operator:
        on_call = {
            "policy": operator.escalation_policies.create("p", ["0 tell role:operator"], 600).id,
            "rota": operator.rotas.create("r", [], [make_member(world)]).id,
        }
    values = {"ID": "0" * 36, "FILE": "/dev/null", "TEXT": "x", "AGENT": "coder", "NAME": "x"}
    for (noun, name), verb in VERBS.items():
        if verb.scope in PRESETS["reader"]:
            continue
        given = [values.get(word, "x") for word in verb.arguments.split() if word[0] != "["]
        given = [world.ids.get(noun, word) if word == "0" * 36 else word for word in given]
        given += {"change": ["--priority", "1"], "create": []}.get(name, [])
        given += ["x"] if name == "resolve" and noun == "escalation" else []
        given += ["--kind", "reader"] if (noun, name) == ("token", "create") else []
        if noun == "agent" and name == "change":
            given = [world.ids["agent"], "--concurrency", "1"]
        if noun == "pool" and name != "create":
            more = {"change": ["--retry-on", "any"], "add": ["coder"], "remove": ["coder"]}
            given = [world.ids["agent"], *more.get(name, [])]
        if (noun, name) == ("standing", "create"):
            given = ["-"]
            monkeypatch.setattr("sys.stdin", open_text(json.dumps(RULE)))
        if noun == "on-call":
            act, _, kind = name.partition("-")
            given = ["new"] if act == "add" else [on_call[kind]]
            given += ["--timezone", "UTC"] if name == "change-rota" else []
            given += ["--off"] if name == "change-policy" else []
        if noun == "target":
            given = ["wait", *["95", "120"][: 2 * (name == "set")], "--type", "code"]
        if noun == "budget":
            none = "00000000-0000-7000-8000-000000000000"
            some = {"ID": none, "AMOUNT": "5 tokens", "INPUT": "1", "OUTPUT": "2"}
            given = [some.get(word, "x") for word in verb.arguments.split() if word[0] != "["]
        if (noun, name) == ("plan", "change"):
            given = [world.ids.get("plan", "x"), "--exclusive-files", "yes"]
        if (noun, name) == ("standing", "change"):
            given = [world.ids["standing"], "-"]
            monkeypatch.setattr("sys.stdin", open_text(json.dumps(RULE)))
        if (noun, name) == ("plan", "confirm"):
            with world.client() as operator:
                operator.plans.create(PROPOSING)
            given = ["03-03", "--yes"]
        if (noun, name) == ("session", "import"):
            given = [str(talk), "--agent", "coder"]
        if (noun, name) == ("plan", "import"):
            given = ["-"]
            monkeypatch.setattr("sys.stdin", open_text(json.dumps(PLAN)))
        for key, value in world.env("reader").items():
            monkeypatch.setenv(key, value)
        status = cli.main([noun, name, *given])
        shown = capfd.readouterr()
        if noun == "token" and name in {"rotate", "revoke", "show", "list", "create"}:
            assert verb.scope == TOKENS_WRITE
        assert status == 1 and shown.out == "", (noun, name, shown)
        says = f"`tenfour {noun} {name}` needs the scope {verb.scope}"
        assert (says in shown.err and "n operator's token" in shown.err) or (
            says in shown.err and verb.scope == "instructions:ack"
        ), (noun, name, shown.err)


def open_text(text: str) -> object:
    import io

    return io.StringIO(text)
