"""Create a token."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ledger import accounts, agents
from ledger.errors import Refusal
from ledger.journal import SHELL, Stamp
from ledger.models import Project
from ledger.models.project import DEFAULT
from ledger.models.token import TokenKind


class Command(BaseCommand):
    help = "Create a token and print only its secret. The secret is not shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--kind", required=True, choices=TokenKind.values)
        parser.add_argument("--agent", help="the agent's name; registered if it is new")
        parser.add_argument("--project", default=DEFAULT)
        parser.add_argument("--name", default="", help="a name for the token in lists")
        parser.add_argument(
            "--account", default="", help="what the agent's calls with it are billed to"
        )
        parser.add_argument(
            "--scopes", default="", help="some of the kind's scopes, separated by commas"
        )
        parser.add_argument(
            "--manage-tokens",
            action="store_true",
            help="with --kind operator: the token may also list, create and revoke tokens",
        )

    def handle(
        self,
        *,
        kind: str,
        agent: str | None,
        project: str,
        name: str,
        account: str,
        scopes: str,
        manage_tokens: bool,
        **_: Any,
    ) -> None:
        home = Project.objects.filter(name=project).first()
        if home is None:
            known = ", ".join(Project.objects.order_by("name").values_list("name", flat=True))
            raise CommandError(f"There is no project '{project}'. Known projects: {known}.")
        if (kind == TokenKind.AGENT) != bool(agent):
            raise CommandError("Use --agent NAME with --kind agent, and only with it.")
        if manage_tokens and kind != TokenKind.OPERATOR:
            raise CommandError("Use --manage-tokens with --kind operator, and only with it.")
        try:
            account = accounts.check_account(account)
            owner = agents.register(agent, project=home, stamp=Stamp(SHELL)) if agent else None
            _token, secret = accounts.issue_token(
                kind,
                project=home,
                agent=owner,
                name=name,
                account=account,
                scopes=[each.strip() for each in scopes.split(",") if each.strip()] or None,
                manages_tokens=manage_tokens,
                stamp=Stamp(SHELL),
            )
        except Refusal as refusal:
            raise CommandError(refusal.detail) from refusal
        self.stdout.write(secret)
