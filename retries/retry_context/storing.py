"""Store with each attempt what its agent was told about the earlier ones."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

from psycopg.types.json import Jsonb

from ledger.database import sql
from ledger.database.sql import Row
from retries.retry_context.block import BUDGET, RENDERER_VERSION, History, find_variant

OPENING_TAG = re.compile(r"<([a-z_]+)")

# A worker that resumes an attempt usually gets the same block again, which needs no write.
STORE = """with contexts as (
    select * from jsonb_to_recordset(%(contexts)s)
        as c(id uuid, variant text, elements jsonb, chars int, sha256 text, text text,
            signature text, fix_key text)
), stored as (
    update ledger_attempt a
    set context_version = %(version)s, context_variant = c.variant,
        context_elements = c.elements, context_chars = c.chars,
        context_sha256 = decode(c.sha256, 'hex')
    from contexts c
    where a.id = c.id and a.context_sha256 is distinct from decode(c.sha256, 'hex')
    returning a.id
)
insert into retries_storedcontext (attempt_id, text, signature, fix_key)
select s.id, c.text, c.signature, c.fix_key from stored s join contexts c using (id)
on conflict (attempt_id) do update
set text = excluded.text, signature = excluded.signature, fix_key = excluded.fix_key"""


def store_contexts(told: Iterable[tuple[Row, History, str]], *, budget: int = BUDGET) -> None:
    """Store the blocks handed out, with version, variant, elements, size and hash."""
    # Each comes with the claimed row and the history that it was rendered from. An empty block is
    # not stored, so that a first attempt costs no write.
    rows = [
        {
            "id": str(row["attempt_id"]),
            "variant": find_variant(
                history,
                context,
                attempt=row["attempt_number"],
                max_attempts=row["attempt_limit"],
                budget=budget,
            ),
            "elements": count_elements(context),
            "chars": len(context),
            "sha256": hashlib.sha256(context.encode()).hexdigest(),
            "text": history.mask(context),
            "signature": fix.signature if (fix := history.told_fix) else "",
            "fix_key": fix.key if fix else "",
        }
        for row, history, context in told
        if context
    ]
    if rows:
        sql.run(STORE, contexts=Jsonb(rows), version=RENDERER_VERSION)


def count_elements(context: str) -> Counter[str]:
    """Return the number of elements by name; all text is escaped, so every `<` opens a tag.

    >>> count_elements("<retry_context><failure>a &lt;b</failure><failure></failure>")
    Counter({'failure': 2, 'retry_context': 1})
    """
    return Counter(OPENING_TAG.findall(context))
