"""`tenfour session import`: a growing file, a cut line, parts, and what leaves the machine."""

import json
from pathlib import Path

import pytest
from tenfour.sessions import transcripts
from tenfour.sessions.transcripts import Part, mask_lines, read_parts

from ledger.models import Message, Session
from ledger.secrets import forms as secret_forms
from tests.client.conftest import Run
from tests.ledger.sessions.transcript_files import as_lines, claude_line, recorded
from tests.serving import Tenfour

ROOT = Path(__file__).parents[2]
PASSWORD = 'hunter"2\\hunter\n3'
TOKEN = "ghp_" + "a1B2c3D4" * 5


@pytest.mark.django_db(transaction=True)
def test_import_of_a_file(run: Run, tenfour_server: Tenfour, tmp_path: Path) -> None:
    env = {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
    }
    path = tmp_path / "transcript.jsonl"
    # the session of an older Codex, which still had the tool
    data = recorded("codex").replace(b"unsupported call: update_plan", b"Plan updated")
    lines = data.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:20]) + lines[20][:50])
    first = run("session", "import", str(path), env=env)
    assert (first.status, first.err.splitlines()) == (
        0,
        [
            "tenfour: 9 new messages in the session 'Write a parser'",
            "tenfour: Line 21 is incomplete and was left out; import the file again later.",
        ],
    )
    session = Session.objects.get()
    assert first.out.strip() == str(session.pk)

    path.write_bytes(data)
    whole = run("session", "import", str(path), "--json", env=env)
    assert json.loads(whole.out)["added"] == 4
    assert run("session", "import", str(path), env=env).err.startswith("tenfour: no new message in")
    flushed = run("session", "flush", str(session.pk)[-8:], env=env)
    assert (flushed.status, flushed.out) == (0, "13 processed\n")
    shown = run("session", "show", str(session.pk), env=env).out
    assert "Write a parser" in shown
    assert "-- to-dos\n1\tsuccess\tWrite the parser" in shown

    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b'{"sessionId": "g9", "messages": []}\n')
    refused = run("session", "import", str(bad), env=env)
    assert (refused.status, refused.out) == (1, "")
    assert "No line of it is a message of Claude Code or Codex." in refused.err
    for name, words in (("missing.jsonl", "can't be read"), ("empty.jsonl", "is empty")):
        (tmp_path / "empty.jsonl").touch()
        wrong = run("session", "import", str(tmp_path / name), env=env)
        assert wrong.status == 2
        assert words in wrong.err
    assert Session.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_large_file_goes_in_parts_and_without_secrets(
    run: Run, tenfour_server: Tenfour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
        "DB_PASSWORD": PASSWORD,
    }
    output = {"type": "tool_result", "tool_use_id": "t", "content": "x" * 1_000_000}
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 9_000_000}}
    said = [claude_line(n, "user", [output]) for n in range(2, 14)]
    path = tmp_path / "large.jsonl"
    path.write_bytes(
        as_lines(
            claude_line(1, "user", f"The password is {PASSWORD}, the token {TOKEN}"),
            *said,
            claude_line(14, "user", [image]),
        )
    )
    assert len(list(read_parts(path))) == 3
    done = run("session", "import", str(path), "--json", env=env)
    assert json.loads(done.out)["added"] == 14, done.err
    first = Message.objects.get(order=1).content[0]["text"]
    assert first == "The password is [redacted:env], the token [redacted:github]"
    path.write_bytes(path.read_bytes() + b"{no}\n")
    said = run("session", "import", str(path), env=env)
    assert said.status == 0
    assert "1 line can't be read and was left out. Line 15: it is not JSON" in said.err


def test_parts_end_with_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "PART_BYTES", 10)
    path = tmp_path / "parts.jsonl"
    path.write_bytes(b"1234\n6789\n" + b"a longer line than that\n" + b"cut")

    def read(**more: bool) -> list[Part]:
        parts = [transcripts.read_part(path, limit=10, **more)]
        while parts[-1].data:
            last = parts[-1]
            parts.append(
                transcripts.read_part(
                    path, offset=last.offset, line=last.next_line, limit=10, **more
                )
            )
        return parts[:-1]

    growing = [(part.data, part.first_line, part.offset) for part in read()]
    assert growing == [(b"1234\n6789\n", 1, 10), (b"a longer line than that\n", 3, 34)]
    assert [part.data for part in read(is_growing=False)][2:] == [b"cut"]


def test_masking_leaves_json_whole() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIE\n"
    lines = [
        {"text": f"{key}", "b": "-----END PRIVATE KEY----- of another line"},
        {"text": f'"{TOKEN}" and \u2028 {PASSWORD}', PASSWORD: [1, None, {"a": TOKEN}]},
        {"text": "nothing"},
    ]
    data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
    masked = mask_lines(data + b'{"cut": "' + TOKEN.encode(), {"MY_SECRET": PASSWORD})
    *whole, cut = masked.split("\n")
    found = [json.loads(line) for line in whole]
    assert found[0]["text"].startswith("[redacted:private_key]")
    assert found[1] == {
        "text": '"[redacted:github]" and \u2028 [redacted:env]',
        "[redacted:env]": [1, None, {"a": "[redacted:github]"}],
    }
    assert found[2] == lines[2]
    assert cut == '{"cut": "[redacted:github]'


def test_the_client_knows_the_forms_of_secrets_that_the_server_knows() -> None:
    """The client's file is a link, so that there is one copy; the wheel has the text."""
    ours = ROOT / "client" / "tenfour" / "redaction" / "secret_forms.py"
    assert ours.is_symlink() and ours.resolve() == Path(secret_forms.__file__ or "").resolve()
