"""Store which event of a coding agent's session a token sent first."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from uuid import UUID

from ledger.access.call_facts import describe_call
from ledger.database import server_time, sql
from ledger.secrets.notes import clean_note

REMEMBERED = 10_000
FIRST_HOOK = """update ledger_token set first_hook = %(call)s::jsonb
where id = %(id)s and first_hook is null"""


def note_first_hook(token_id: UUID, event: str, meta: Mapping[str, Any]) -> None:
    # A process asks the database once per token.
    if token_id not in noted_tokens():
        now = server_time.now()
        call = describe_call(meta, now=now) | {
            "what": clean_note(event, limit=64),
            "at": now.isoformat(),
        }
        sql.run(FIRST_HOOK, id=token_id, call=json.dumps(call))
        remember(token_id)


@lru_cache(maxsize=1)
def noted_tokens() -> dict[UUID, None]:
    return {}


def remember(token_id: UUID) -> None:
    noted = noted_tokens()
    noted[token_id] = None
    if len(noted) > REMEMBERED:
        noted.clear()
