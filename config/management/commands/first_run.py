"""Makes what a newcomer needs to get in: an operator's login, and a token of each kind."""

import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand
from django.db import transaction

from config.local.places import write_private
from ledger import agents, tokens
from ledger.journal import SYSTEM
from ledger.models import Project
from ledger.models.project import DEFAULT

LOGIN = "operator"
AGENT = "coder"


class Command(BaseCommand):
    help = "Makes the first login and tokens, once, and keeps them in the file 'credentials'."

    def handle(self, *_: Any, **__: Any) -> None:
        kept: Path = settings.DATA_DIR / "credentials"
        if kept.exists() or get_user_model().objects.exists():
            return
        with transaction.atomic():
            # Written before the commit: without the file nobody could ever use what is made here.
            write_private(kept, credentials())


def credentials() -> str:
    """The login and the tokens, as lines that a shell could read."""
    project = Project.objects.get(name=DEFAULT)
    agent = agents.register(AGENT, project=project, actor=SYSTEM)
    password = secrets.token_urlsafe(15)
    get_user_model().objects.create_superuser(LOGIN, password=password)
    values = {
        "TENFOUR_LOGIN": LOGIN,
        "TENFOUR_PASSWORD": password,
        "TENFOUR_OPERATOR_TOKEN": secret("operator", project),
        "TENFOUR_PRODUCER_TOKEN": secret("orchestrator", project, name="producer"),
        "TENFOUR_AGENT": AGENT,
        "TENFOUR_AGENT_TOKEN": secret("agent", project, agent=agent),
    }
    lines = "".join(f"{name}={value}\n" for name, value in values.items())
    return "# Made at the first start of Tenfour, and kept nowhere else.\n" + lines


def secret(kind: str, project: Project, **of: Any) -> str:
    return tokens.issue(kind, project=project, actor=SYSTEM, **of)[1]
