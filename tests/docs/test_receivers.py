"""The programs of docs/webhooks.md that verify webhooks, run on bodies that Tenfour signs."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retries.notifications import signatures
from tests.docs.pages import blocks
from tests.serving import ROOT

BODY = b'{"type":"task.failed","timestamp":"2026-11-22T14:31:09.000Z","data":{"n":"\xc3\xa9"}}'
INTERPRETERS = {"verify.py": sys.executable, "verify.mjs": "node", "verify.sh": "sh"}


@pytest.mark.parametrize("name", INTERPRETERS)
def test_a_receiver_accepts_what_is_signed_and_nothing_else(name: str, tmp_path: Path) -> None:
    """One signature or two are accepted; a changed body, id, time or secret is refused."""
    interpreter = shutil.which(INTERPRETERS[name])
    if interpreter is None:
        pytest.skip(f"{INTERPRETERS[name]} is not installed")
    program = tmp_path / name
    (block,) = (each for each in blocks(ROOT / "docs" / "webhooks.md") if each.what == name)
    program.write_text(block.text)
    secret, other, now = signatures.new_secret(), signatures.new_secret(), int(time.time())

    def verify(
        *signing: str, at: int = now, body: bytes = BODY, id: str = "evt-1", with_: str = secret
    ) -> bool:
        headers = signatures.headers_of(
            BODY, message_id="evt-1", timestamp=at, signing_secrets=signing
        )
        env = {name.upper().replace("-", "_"): value for name, value in headers.items()}
        env |= {"WEBHOOK_SECRET": with_, "WEBHOOK_ID": id, "PATH": os.environ["PATH"]}
        done = subprocess.run([interpreter, str(program)], input=body, env=env, capture_output=True)
        return done.returncode == 0

    assert verify(secret) and verify(other, secret)
    assert not verify(other)
    assert not verify(secret, body=BODY.replace(b"failed", b"filled"))
    assert not verify(secret, id="evt-2")
    assert not verify(secret, at=now - 3600)
