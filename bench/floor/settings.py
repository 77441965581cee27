"""Tenfour's own settings of the database, and of nothing else."""

from config.settings import DATABASES, SECRET_KEY, USE_TZ

__all__ = ["DATABASES", "SECRET_KEY", "USE_TZ"]

# Its cursors bind on the server, which lets PostgreSQL prepare: Tenfour does so with its own cursor.
DATABASES["default"]["OPTIONS"]["server_side_binding"] = True
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS: list[str] = []
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "bench.floor.urls"
LOGGING_CONFIG = None
