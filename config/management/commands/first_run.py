"""Creates the first login and tokens."""

import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand
from django.db import transaction

from config.local.places import write_private
from ledger import agents, tokens
from ledger.journal import SYSTEM, Stamp
from ledger.models import Project
from ledger.models.project import DEFAULT

LOGIN = "operator"
AGENT = "coder"


class Command(BaseCommand):
    help = "Create the first login and tokens, once, and write them to the file 'credentials'."

    def handle(self, *_: Any, **__: Any) -> None:
        file: Path = settings.DATA_DIR / "credentials"
        if file.exists() or get_user_model().objects.exists():
            return
        with transaction.atomic():
            # Written before the commit: without the file, what is created here could never be used.
            write_private(file, credentials())


def credentials() -> str:
    """Create the login and the tokens; return them as lines that a shell can read."""
    project = Project.objects.get(name=DEFAULT)
    agent = agents.register(AGENT, project=project, stamp=Stamp(SYSTEM))
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
    return "# Created at the first start of Tenfour, and stored nowhere else.\n" + lines


def secret(kind: str, project: Project, **of: Any) -> str:
    return tokens.issue(kind, project=project, stamp=Stamp(SYSTEM), **of)[1]
