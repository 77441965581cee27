"""Create an agent's token with its first instruction, and withdraw both."""

import secrets
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from dashboard.connect.queries import FIRST_TEXT, find_first_instruction
from ledger import agents, instructions, tokens
from ledger.instructions import Expect
from ledger.journal import Stamp
from ledger.models import Project, Token
from ledger.models.instruction import OnFailed
from ledger.models.token import TokenKind
from ledger.states import UNSETTLED
from ledger.values.ids import first_id

EXPECTED = Expect("fs_command", {"command": "git"})
# A token that was never used can be replaced for this long.
REPLACEABLE_FOR = timedelta(days=1)


def new_id(now: datetime) -> UUID:
    # The form carries the id, so that sending the form twice creates one token.
    return UUID(int=first_id(now).int | secrets.randbits(62))


@transaction.atomic
def create_connection(
    name: str, *, project: Project, token_id: UUID, replaces: UUID | None = None, stamp: Stamp
) -> tuple[Token, str]:
    """Register the agent if it is new, and create a token and its first instruction."""
    if replaces:
        take_back(replaces, stamp=stamp)
    agent = agents.register(name, project=project, stamp=stamp)
    token, secret = tokens.issue(
        TokenKind.AGENT, project=project, agent=agent, id=token_id, stamp=stamp
    )
    instructions.send(
        agent, FIRST_TEXT, expect=EXPECTED, on_failed=OnFailed.RECORD.value, stamp=stamp
    )
    return token, secret


def take_back(token_id: UUID, *, stamp: Stamp) -> None:
    """Revoke a token that made no call yet, and cancel its agent's first instruction."""
    token = Token.objects.select_for_update().filter(pk=token_id, agent__isnull=False).first()
    if token is None or token.last_used_at or stamp.at - token.created_at > REPLACEABLE_FOR:
        return
    tokens.revoke(token, stamp=stamp)
    row = find_first_instruction(token)
    if row and row.state in UNSETTLED:
        instructions.cancel([row.pk], project_id=token.project_id, stamp=stamp)
