"""Use Tenfour's database settings and nothing else of its configuration."""

from config.settings import DATABASES, SECRET_KEY, USE_TZ

__all__ = ["DATABASES", "SECRET_KEY", "USE_TZ"]

# Bind on the server so that PostgreSQL prepares statements, as Tenfour's own cursor does.
DATABASES["default"]["OPTIONS"]["server_side_binding"] = True
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS: list[str] = []
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "bench.floor.urls"
LOGGING_CONFIG = None
