"""Let a role of PostgreSQL read the views for SQL."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import ProgrammingError, connection
from psycopg.errors import InsufficientPrivilege

from retries.reporting.access import RoleRefused, grant_views, revoke_views
from retries.reporting.views import VIEWS


class Command(BaseCommand):
    help = (
        "Lets a role of PostgreSQL read tasks, attempts, and escalations as views, and only them."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["grant", "revoke"], help="what to do")
        parser.add_argument("role", help="the role, which a superuser has created")

    def handle(self, *, action: str, role: str, **_: Any) -> None:
        try:
            self.grant(role) if action == "grant" else self.revoke(role)
        except RoleRefused as error:
            raise CommandError(str(error)) from error
        except ProgrammingError as error:
            if not isinstance(error.__cause__, InsufficientPrivilege):
                raise
            reason = str(error).strip()
            raise CommandError(
                f"PostgreSQL refused it: {reason}. Let a superuser run: create role {role} login; "
                f"then set its password with \\password {role}, and run this command again."
            ) from error

    def grant(self, role: str) -> None:
        granted = grant_views(connection, role)
        self.stdout.write(f"{role} can read {', '.join(view.name for view in VIEWS)}.")
        if granted.password:
            self.stdout.write(f"Created the role; its password is {granted.password}")
        if granted.left:
            self.stdout.write("A superuser should also run:")
        for statement in granted.left:
            self.stdout.write(f"  {statement};")

    def revoke(self, role: str) -> None:
        revoke_views(connection, role)
        self.stdout.write(f"{role} can no longer read the views.")
