"""Store the diff that an attempt left, and the environment that it ran in."""

from collections.abc import Mapping
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger.database import sql
from ledger.secrets.notes import clean_note
from ledger.secrets.redaction import redacted, stripped
from ledger.values.text import truncate
from retries.attempts.checks.reported import COMMAND_LENGTH
from retries.retry_context.hunks import clip_hunks

DIFF_BYTES = 64 * 1024
# a heartbeat takes more than is stored, in characters
MOST_DIFF = 128 * 1024
MOST_FACTS, NAME_LENGTH, FACT_LENGTH = 20, 40, 300

# A diff or an environment that is not sent again stays.
STORE = """insert into retries_attemptdiff (attempt_id, diff, environment, check_key)
select a.id, coalesce(%(diff)s, ''), %(environment)s,
    case when %(check)s::text = '' then '' else md5(t.project_id::text || '/' || %(check)s) end
from ledger_attempt a join ledger_task t on t.id = a.task_id where a.id = %(attempt)s
on conflict (attempt_id) do update
set diff = coalesce(%(diff)s, retries_attemptdiff.diff),
    environment = coalesce(excluded.environment, retries_attemptdiff.environment),
    check_key = coalesce(nullif(excluded.check_key, ''), retries_attemptdiff.check_key)"""


def store_diff(
    attempt_id: UUID, *, diff: str | None, environment: Mapping[str, str] | None, check: str = ""
) -> None:
    """Store a live attempt's changes and environment; `check` is the check's command."""
    sql.run(
        STORE,
        attempt=attempt_id,
        diff=clean_diff(diff) if diff is not None else None,
        environment=Jsonb(clean_environment(environment)) if environment is not None else None,
        check=truncate(check, COMMAND_LENGTH),
    )


def clean_diff(diff: str) -> str:
    """Return a diff as it is stored: without secrets, shortened to whole hunks."""
    # Clipped first, since redacting all of it would take long; no hunk and so no secret is cut.
    text = stripped(redacted(clip_hunks(diff, DIFF_BYTES, measure=count_bytes)))
    # Masks may be longer than what they hide.
    return clip_hunks(text, DIFF_BYTES, measure=count_bytes)


def count_bytes(text: str) -> int:
    return len(text.encode(errors="replace"))


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        clean_note(name, limit=NAME_LENGTH): clean_note(value, limit=FACT_LENGTH)
        for name, value in list(environment.items())[:MOST_FACTS]
    }
