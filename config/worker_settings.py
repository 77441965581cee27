"""The settings of workers and of the clock: all of them, without the apps that only pages need.

The admin and the API take 17 MB in a process that answers no request.
"""

from config import settings, single_sign_on
from config.settings import *  # noqa: F403

WEB_APPS = {"django.contrib.admin", "django_htmx", "ninja", *single_sign_on.APPS}
INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name not in WEB_APPS]
