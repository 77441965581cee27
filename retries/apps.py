"""Decisions: what happens next."""

from django.apps import AppConfig


class RetriesConfig(AppConfig):
    name = "retries"
    verbose_name = "Retries"

    def ready(self) -> None:
        from retries.budgets import registration

        registration.register()
