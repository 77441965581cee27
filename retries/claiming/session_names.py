"""The names under which an agent's session is stored."""

from ledger.secrets.notes import mask_key
from ledger.secrets.redaction import stripped
from retries.claims import WORKER_LENGTH

SESSION_LENGTH = 128
# The workers of agents' sessions, which hooks claim for, begin so; there is an index of them.
SESSION = "session:"
# A session's last attempt; the last condition is the index's.
LAST_ATTEMPT = f"""select id, task_id, outcome from ledger_attempt
where agent_id = %(agent)s and worker_id = %(worker)s and worker_id like '{SESSION}%%'
order by id desc limit 1"""


def name_session(session: str) -> str:
    return mask_key(stripped(session), limit=SESSION_LENGTH)[:SESSION_LENGTH]


def name_worker(session: str) -> str:
    """Return the name under which a session holds attempts; empty without a session."""
    if not session or not session.isprintable():
        return ""
    return mask_key(f"{SESSION}{session}", limit=WORKER_LENGTH)[:WORKER_LENGTH]
