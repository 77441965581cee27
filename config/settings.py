"""Every setting, read from the environment once; a bad value stops the start with a sentence.

`config/setting_table.py` lists the ones that an operator can set.
"""

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured
from redis.backoff import NoBackoff
from redis.retry import Retry

from config import __version__, environment, setting_table, single_sign_on, tracing
from config.postgres import replica_settings

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(environment.read_text("DATA") or BASE_DIR / ".tenfour").resolve()

if (DATA_DIR / "env").is_file():
    # `make up` wrote the addresses of its own servers; the environment takes precedence.
    environ.Env.read_env(str(DATA_DIR / "env"))
TESTING = "pytest" in sys.modules


def setting(name: str, default: str | None = None) -> Any:
    # A bad value stops the start with a sentence.
    try:
        return environment.read(name, default)
    except environment.BadSetting as error:
        raise ImproperlyConfigured(str(error)) from error.__cause__


# ---- what operators set: name -> value; config/setting_table.py says what each one means

TENFOUR_GROUPS = tuple(setting_table.shown_groups())
TENFOUR = {each.name: setting(each.name) for _, group in TENFOUR_GROUPS for each in group}
TENFOUR["OIDC_ISSUER"] = TENFOUR["OIDC_ISSUER"].rstrip("/")
TENFOUR["TRACE_URL"] = tracing.check_template(TENFOUR["TRACE_URL"])
TENFOUR_VERSION = __version__
# A model on this machine needs no key.
LLM_KEY = setting("LLM_KEY") if environment.is_set("LLM_KEY") else ""

# ---- where it runs

# The address that people and agents use. https:// switches secure cookies, HSTS and redirect on.
TENFOUR_URL: str = setting("URL").rstrip("/")
_public = urlsplit(TENFOUR_URL)
if TENFOUR_URL and (_public.scheme not in ("http", "https") or not _public.hostname):
    raise ImproperlyConfigured(
        f"TENFOUR_URL must look like https://tenfour.example.org, not {TENFOUR_URL!r}."
    )
SECURE = _public.scheme == "https"
globals().update(single_sign_on.build_settings(TENFOUR, setting, is_secure=SECURE))
# Links in responses begin with this address and never with the Host header, which anyone can
# forge: a problem or an escalation that is passed on would lead to another server.
LINK_URL = (
    TENFOUR_URL
    or os.environ.get("TENFOUR_LOCAL_URL")  # the address that the web server is bound to
    or f"http://127.0.0.1:{environment.read_text('PORT')}"
)

SECRET_KEY = setting("SECRET_KEY")
if len(SECRET_KEY) < 32:
    raise ImproperlyConfigured("TENFOUR_SECRET_KEY must have at least 32 random characters.")
# Earlier keys: they still verify sessions and decrypt the secrets of channels.
SECRET_KEY_FALLBACKS: list[str] = []
if environment.is_set("SECRET_KEY_FALLBACKS"):
    SECRET_KEY_FALLBACKS = environment.split_names(setting("SECRET_KEY_FALLBACKS"))
DEBUG = False
# An empty TENFOUR_HOSTS allows only this machine's names.
ALLOWED_HOSTS = setting("HOSTS", _public.hostname if TENFOUR_URL else "*")
ALLOWED_HOSTS += ["127.0.0.1", "localhost", "[::1]"]
if TENFOUR_URL:
    CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE
SESSION_COOKIE_HTTPONLY = True
# Own names, so that another Django site on the same host does not overwrite them.
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "tenfour_session", "tenfour_csrf"
AUTHENTICATION_BACKENDS = ["dashboard.frame.access.People"]
SESSION_ENGINE = "config.requests.browser_sessions"  # polls ask for sessions all the time
SECURE_SSL_REDIRECT = SECURE
SECURE_SSL_HOST = _public.netloc if SECURE else None
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = 31_536_000 if SECURE else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = SECURE
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

# ---- the application

INSTALLED_APPS = [
    "config",
    "dashboard",
    "retries",
    "ledger",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "ninja",
]
MIDDLEWARE = [
    "config.monitoring.request_metrics.RequestMetrics",
    "config.requests.middleware.RequestId",
    "config.requests.middleware.ClientAddress",
    "config.requests.middleware.ContentSecurityPolicy",
    "config.requests.middleware.UnreadBodies",
    "config.requests.middleware.ApiProblems",
    "config.requests.middleware.Utf8Only",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # No secret can be read from the size of a compressed page (BREACH): Django masks CSRF tokens,
    # each response gets random padding, and a page that shows a token is shown once.
    "django.middleware.gzip.GZipMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "config.requests.middleware.HostNames",
    "django.middleware.csrf.CsrfViewMiddleware",
    "config.requests.session_signatures.SessionSignatures",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "config.requests.middleware.PageProblems",
]
if TENFOUR["OIDC_ISSUER"] or TESTING:
    INSTALLED_APPS += single_sign_on.APPS
    MIDDLEWARE += single_sign_on.MIDDLEWARE
if tracing.is_configured():
    MIDDLEWARE.insert(
        MIDDLEWARE.index("config.requests.middleware.RequestId") + 1, tracing.MIDDLEWARE
    )
    tracing.install()
# Bearer calls under /v1 need none of the browser's middleware: see config/wsgi.py.
API_MIDDLEWARE = MIDDLEWARE[: MIDDLEWARE.index("whitenoise.middleware.WhiteNoiseMiddleware")]
ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            # available in each template without {% load %}
            "builtins": ["django.templatetags.static", "dashboard.templatetags.tenfour"],
        },
    }
]
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024
LANGUAGE_CODE = "en"
USE_I18N = False
FORMAT_MODULE_PATH = "config.formats"
TIME_ZONE = "UTC"
USE_TZ = True
# Constraints with SQL of their own are checked by PostgreSQL. Each command would warn of each.
SILENCED_SYSTEM_CHECKS = ["models.W045"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# ---- PostgreSQL

DATABASES = {"default": environ.Env.db_url_config(setting("DATABASE_URL"))}
DATABASES["default"] |= {
    "ENGINE": "config.postgres",
    # Web threads keep their connection. The worker's threads share a pool instead, because Celery
    # closes connections around every job (config/worker_settings.py).
    "CONN_MAX_AGE": 600,
    "CONN_HEALTH_CHECKS": True,
    "OPTIONS": {
        # A peer that vanished without closing its connections is noticed within 15 seconds.
        "keepalives_idle": 5,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": 15_000,
        **DATABASES["default"].get("OPTIONS", {}),
        "application_name": "tenfour",
        "connect_timeout": 5,
    },
}
if TENFOUR["PREPARE"]:
    # config.postgres finds out whether a pooler stands between that can't prepare statements.
    DATABASES["default"]["PREPARES"] = True if environment.is_set("PREPARE") else None
    DATABASES["default"]["OPTIONS"] |= {
        "prepare_threshold": 5,
        # Prepared statements are written for one plan. By default, PostgreSQL plans a claim again
        # at every call once its tables have grown since it first compared plans, and compiles
        # statements that take a millisecond to run.
        "options": "-c lock_timeout=10s -c statement_timeout=60s"
        " -c idle_in_transaction_session_timeout=60s"
        " -c plan_cache_mode=force_generic_plan -c jit=off",
    }
else:
    # A transaction pooler stands between: it keeps neither cursors nor a session's settings.
    DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True

if environment.is_set("REPLICA_URL"):
    url = setting("REPLICA_URL")
    globals().update(replica_settings.build_settings(DATABASES, MIDDLEWARE, url))

# ---- Redis: Celery's broker and the counter of failed sign-ins; it holds no facts

REDIS_URL = setting("REDIS_URL")
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "tenfour",
        "OPTIONS": {
            "socket_timeout": 0.5,
            "socket_connect_timeout": 0.5,
            "retry": Retry(NoBackoff(), 1),  # it may be away: answers must not wait for it
        },
    }
}
CELERY_BROKER_URL = REDIS_URL
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TIMEZONE = "UTC"
CELERY_TASK_PUBLISH_RETRY_POLICY = {
    "max_retries": 2,
    "interval_start": 0,
    "interval_step": 0.1,
    "interval_max": 0.2,
}
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 600,
    # Without a socket timeout a half-open connection leaves the worker without messages forever.
    "socket_timeout": 8,
    "socket_connect_timeout": 3,
    "socket_keepalive": True,
    "health_check_interval": 10,
    "retry_on_timeout": True,
    "global_keyprefix": "tenfour:",
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
}

# Name of a sweep -> seconds between two runs. Sweeps that are due together run in this order; those
# that may take long come last.
CLOCK: dict[str, float] = {
    "backoff": 1,
    "expire_leases": 5,
    "breakers": 5,
    "plans": 5,
    "operations": 2,
    "escalations": 15,
    "on_call": 2,
    "conditions": 15,
    "standing_instructions": 15,
    "notifications": 1,
    "sessions": 5,
    "metrics": 15,
    "activity": 15,
    "search_words": 15,
    "idle_check": TENFOUR["IDLE_CHECK_SECONDS"],
    "retention": 600,
    "journal": 600,
    "insight": 1800,
    "forecasts": 60,
}
# One job runs all of them that are due. The others may take long, so each has its own job.
FREQUENT = {name: seconds for name, seconds in CLOCK.items() if seconds < 60}

# ---- static files

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if TESTING
        else "config.rendering.staticfiles.GzippedManifest"
    },
}
WHITENOISE_USE_FINDERS = TESTING
WHITENOISE_AUTOREFRESH = TESTING  # else each test client reads all files when it is made
WHITENOISE_ROOT = BASE_DIR / "dashboard" / "static_root"  # /favicon.ico
WHITENOISE_MAX_AGE = 3600

# ---- logs: JSON lines where a machine reads them, plain text on a terminal

LOG_JSON = TENFOUR["LOG_JSON"]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"lines": {"()": "config.monitoring.logs.formatter", "as_json": LOG_JSON}},
    "filters": {"redis": {"()": "config.monitoring.logs.RedisOutages"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "lines", "filters": ["redis"]}
    },
    "root": {"handlers": ["stderr"], "level": TENFOUR["LOG_LEVEL"]},
    "loggers": {
        "django.server": {"handlers": [], "propagate": True},
        "django": {"handlers": [], "level": "INFO"},
        # One line per request or job would say no more than the metrics and the journal do.
        "httpx2": {"handlers": [], "level": "WARNING"},
        "celery.beat": {"handlers": [], "level": "WARNING"},  # it logs every tick
        "celery.app.trace": {"handlers": [], "level": "WARNING"},
        "celery.worker.strategy": {"handlers": [], "level": "WARNING"},
    },
}
