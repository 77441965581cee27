"""The settings of workers and of the clock: all of them, without the apps that only pages need.

The admin and the API take 17 MB in a process that answers no request.
"""

from config import settings, single_sign_on
from config.settings import *  # noqa: F403

WEB_APPS = {"django.contrib.admin", "django_htmx", "ninja", *single_sign_on.APPS}
INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name not in WEB_APPS]

# Celery closes connections around every job, so the threads share a pool.
DATABASES = {
    name: database
    | {
        "CONN_MAX_AGE": 0,
        "OPTIONS": database["OPTIONS"] | {"pool": {"min_size": 1, "max_size": 8, "timeout": 5}},
    }
    for name, database in settings.DATABASES.items()
}
