"""Register this package's management commands, and a system check of the environment."""

import os
from typing import Any

from django.apps import AppConfig
from django.core.checks import Warning, register

from config.environment import unknown_variables
from config.rendering import templates


class ConfigConfig(AppConfig):
    name = "config"
    label = "tenfour_config"
    verbose_name = "Tenfour"

    def ready(self) -> None:
        templates.install()


@register()
def check_environment(**_: Any) -> list[Warning]:
    # Most variables with our prefix that nothing reads are misspelled settings.
    return [Warning(sentence, id="tenfour.W001") for sentence in unknown_variables(os.environ)]
