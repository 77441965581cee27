"""Registers the management commands that tie the packages together."""

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    name = "config"
    label = "tenfour_config"
    verbose_name = "Tenfour"
