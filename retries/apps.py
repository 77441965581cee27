"""Decisions: what happens next."""

from django.apps import AppConfig


class RetriesConfig(AppConfig):
    name = "retries"
    verbose_name = "Retries"
