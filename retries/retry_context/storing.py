"""Store with each attempt what its agent was told about the earlier ones."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger import sql
from retries.retry_context.block import RENDERER_VERSION

# the way of rendering, for comparisons between attempts that were told different things
VARIANT = "default"
OPENING_TAG = re.compile(r"<([a-z_]+)")

# A worker that resumes an attempt usually gets the same block again, which needs no write.
STORE = """update ledger_attempt a set context_version = %(version)s, context_variant = %(variant)s,
    context_elements = c.elements, context_chars = c.chars, context_sha256 = decode(c.sha256, 'hex')
from jsonb_to_recordset(%(contexts)s) as c(id uuid, elements jsonb, chars int, sha256 text)
where a.id = c.id and a.context_sha256 is distinct from decode(c.sha256, 'hex')"""


def store_contexts(contexts: Mapping[UUID, str]) -> None:
    """Store version, variant, elements, size and hash of the blocks handed out, by attempt.

    An empty block is not stored: a first attempt costs no write.
    """
    rows = [
        {
            "id": str(id),
            "elements": count_elements(context),
            "chars": len(context),
            "sha256": hashlib.sha256(context.encode()).hexdigest(),
        }
        for id, context in contexts.items()
        if context
    ]
    if rows:
        sql.run(STORE, contexts=Jsonb(rows), version=RENDERER_VERSION, variant=VARIANT)


def count_elements(context: str) -> Counter[str]:
    """Return the number of elements by name; all text is escaped, so every `<` opens a tag.

    >>> count_elements("<retry_context><failure>a &lt;b</failure><failure></failure>")
    Counter({'failure': 2, 'retry_context': 1})
    """
    return Counter(OPENING_TAG.findall(context))
