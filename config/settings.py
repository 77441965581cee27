"""Every setting, read from the environment once; a bad value stops the start with a sentence.

`LIMITS` and `INTERVALS` below are the ones an operator tunes: `docs/settings.md` lists them and a
test holds the two equal.
"""

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured
from redis.backoff import NoBackoff
from redis.retry import Retry

from config import __version__, single_sign_on, tracing
from config.postgres import replica_settings

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("TENFOUR_DATA") or BASE_DIR / ".tenfour").resolve()

if (DATA_DIR / "env").is_file():
    # `make up` wrote where its own servers are; whatever the environment says wins.
    environ.Env.read_env(str(DATA_DIR / "env"))
env = environ.Env()
TESTING = "pytest" in sys.modules


def secret(name: str) -> str:
    """The value of `name`, or the content of the file that `name`_FILE points to."""
    path = os.environ.get(f"{name}_FILE")
    try:
        value = Path(path).read_text().strip() if path else os.environ.get(name, "")
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name}_FILE={path} can't be read: {error.strerror}."
        ) from error
    if not value:
        raise ImproperlyConfigured(
            f"{name} is not set. Start Tenfour with 'make up', which brings its own servers, "
            f"or set {name} (or {name}_FILE) in the environment."
        )
    return value


def number(name: str, default: int, *, low: int = 0, high: int = 10**9) -> int:
    """A whole number between `low` and `high`, from TENFOUR_`name`."""
    raw = os.environ.get(f"TENFOUR_{name}", str(default))
    try:
        value = int(raw)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise ImproperlyConfigured(
            f"TENFOUR_{name} must be a whole number from {low} to {high}, not {raw!r}."
        )
    return value


def flag(name: str, default: bool) -> bool:
    """A switch from `name`: 1, 0, true, false, yes, no, on, off."""
    raw = os.environ.get(name, "1" if default else "0").lower()
    known = {"1": True, "true": True, "yes": True, "on": True}
    known |= {"0": False, "false": False, "no": False, "off": False, "": False}
    if raw not in known:
        raise ImproperlyConfigured(f"{name} must be 1 or 0, not {raw!r}.")
    return known[raw]


# ---- what operators tune: name -> value; docs/settings.md says what each one means

TENFOUR = {
    "IDLE_CHECK_SECONDS": number("IDLE_CHECK_SECONDS", 60, low=1),
    "INSTRUCTION_MIN_AGE": number("INSTRUCTION_MIN_AGE", 30),
    "INSTRUCTION_MAX_RETRIES": number("INSTRUCTION_MAX_RETRIES", 3, high=20),
    "TASK_MAX_ATTEMPTS": number("TASK_MAX_ATTEMPTS", 3, low=1, high=100),
    "TASK_LEASE_SECONDS": number("TASK_LEASE_SECONDS", 300, low=5, high=86_400),
    "TASK_TIMEOUT_SECONDS": number("TASK_TIMEOUT_SECONDS", 3600, low=1),
    "BACKOFF_SECONDS": number("BACKOFF_SECONDS", 1, low=1),
    "EXPIRE_LEASES_SECONDS": number("EXPIRE_LEASES_SECONDS", 5, low=1),
    "BREAKERS_SECONDS": number("BREAKERS_SECONDS", 5, low=1),
    "PLANS_SECONDS": number("PLANS_SECONDS", 5, low=1),
    "BREAKER_FAILURES": number("BREAKER_FAILURES", 5, low=1),
    "BREAKER_SUCCESSES": number("BREAKER_SUCCESSES", 2, low=1),
    "BREAKER_OPEN_SECONDS": number("BREAKER_OPEN_SECONDS", 60),
    "BREAKER_COUNTS": env.list("TENFOUR_BREAKER_COUNTS", default=["execution_error", "timeout"]),
    "ESCALATIONS_SECONDS": number("ESCALATIONS_SECONDS", 15, low=1),
    "ESCALATION_REMIND_SECONDS": number("ESCALATION_REMIND_SECONDS", 3600),
    "QUESTION_MIN_SECONDS": number("QUESTION_MIN_SECONDS", 300),
    "UNDO_SECONDS": number("UNDO_SECONDS", 10, high=60),
    "SILENT_AFTER_SECONDS": number("SILENT_AFTER_SECONDS", 300, low=1),
    "POLL_SECONDS": number("POLL_SECONDS", 2, low=1),
    "STANDING_INSTRUCTIONS_SECONDS": number("STANDING_INSTRUCTIONS_SECONDS", 15, low=1),
    "INSIGHT_SECONDS": number("INSIGHT_SECONDS", 1800, low=1),
    "METRICS_SECONDS": number("METRICS_SECONDS", 15, low=1),
    "JOURNAL_SECONDS": number("JOURNAL_SECONDS", 600, low=1),
    "EVENT_DAYS": number("EVENT_DAYS", 400),
    "SESSION_MESSAGE_BUFFER_MAX_TURNS": number(
        "SESSION_MESSAGE_BUFFER_MAX_TURNS", 16, low=1, high=1000
    ),
    "SESSION_MESSAGE_BUFFER_MAX_OVERFLOW": number(
        "SESSION_MESSAGE_BUFFER_MAX_OVERFLOW", 16, high=1000
    ),
    "SESSION_MESSAGE_BUFFER_TTL_SECONDS": number("SESSION_MESSAGE_BUFFER_TTL_SECONDS", 8, low=1),
    "SESSION_MESSAGE_PROCESSING_TIMEOUT_SECONDS": number(
        "SESSION_MESSAGE_PROCESSING_TIMEOUT_SECONDS", 60, low=1
    ),
    "SESSION_MESSAGE_SESSION_LOCK_WAIT_SECONDS": number(
        "SESSION_MESSAGE_SESSION_LOCK_WAIT_SECONDS", 1
    ),
    "SESSION_MESSAGE_FLUSH_MAX_RETRIES": number(
        "SESSION_MESSAGE_FLUSH_MAX_RETRIES", 60, low=1, high=3600
    ),
    "SESSIONS_SECONDS": number("SESSIONS_SECONDS", 5, low=1),
    "RETENTION_SECONDS": number("RETENTION_SECONDS", 600, low=1),
    "TASK_DAYS": number("TASK_DAYS", 0),
    "PAYLOAD_DAYS": number("PAYLOAD_DAYS", 0),
    "INSTRUCTION_DAYS": number("INSTRUCTION_DAYS", 0),
    "ESCALATION_DAYS": number("ESCALATION_DAYS", 0),
    "SESSION_DAYS": number("SESSION_DAYS", 0),
    "ARCHIVE": os.environ.get("TENFOUR_ARCHIVE", "").strip(),
    "TOKEN_DAYS": number("TOKEN_DAYS", 90, low=1),
    "AUTH_FAILURES_PER_MINUTE": number("AUTH_FAILURES_PER_MINUTE", 10, low=1),
    "AGENT_TASKS_PER_DAY": number("AGENT_TASKS_PER_DAY", 500),
    "AGENT_SESSION_MIB_PER_DAY": number("AGENT_SESSION_MIB_PER_DAY", 256),
    "BODY_BYTES": number("BODY_BYTES", 262_144, low=1024),
    "LLM_URL": os.environ.get("TENFOUR_LLM_URL", "").strip(),
    "LLM_MODEL": os.environ.get("TENFOUR_LLM_MODEL", "").strip(),
    "LLM_TIMEOUT_SECONDS": number("LLM_TIMEOUT_SECONDS", 60, low=1, high=600),
    "LLM_MAX_RETRIES": number("LLM_MAX_RETRIES", 2, high=10),
    "PREPARE": flag("TENFOUR_PREPARE", True),
    "TRUSTED_PROXIES": number("TRUSTED_PROXIES", 0, high=10),
    "METRICS_ALLOW": env.list("TENFOUR_METRICS_ALLOW", default=[]),
    "REPLICA_LAG_SECONDS": number("REPLICA_LAG_SECONDS", 10, low=1, high=3600),
    "NOTIFICATIONS_SECONDS": number("NOTIFICATIONS_SECONDS", 1, low=1),
    "CONDITIONS_SECONDS": number("CONDITIONS_SECONDS", 15, low=1),
    "OPERATIONS_SECONDS": number("OPERATIONS_SECONDS", 2, low=1),
    "DELIVERY_DAYS": number("DELIVERY_DAYS", 30, low=1),
    "WEBHOOK_ALLOW": env.list("TENFOUR_WEBHOOK_ALLOW", default=[]),
    "OIDC_ISSUER": os.environ.get("TENFOUR_OIDC_ISSUER", "").rstrip("/"),
    "OIDC_CLIENT_ID": os.environ.get("TENFOUR_OIDC_CLIENT_ID", "").strip(),
    "OIDC_NAME": os.environ.get("TENFOUR_OIDC_NAME", "single sign-on").strip(),
    "OIDC_GROUPS_CLAIM": os.environ.get("TENFOUR_OIDC_GROUPS_CLAIM", "groups").strip(),
    "OIDC_GROUPS": os.environ.get("TENFOUR_OIDC_GROUPS", "").strip(),
    "TRACE_URL": tracing.check_template(os.environ.get("TENFOUR_TRACE_URL", "").strip()),
    "OPEN_DOCS": flag("TENFOUR_OPEN_DOCS", True),
    "ADMIN_PATH": os.environ.get("TENFOUR_ADMIN_PATH", "admin").strip("/") + "/",
}
TENFOUR_VERSION = __version__
# A model on this machine needs no key.
LLM_KEY = (
    secret("TENFOUR_LLM_KEY")
    if os.environ.get("TENFOUR_LLM_KEY") or os.environ.get("TENFOUR_LLM_KEY_FILE")
    else ""
)

# ---- where it runs

# The address that people and agents use. https:// switches secure cookies, HSTS and redirect on.
TENFOUR_URL = os.environ.get("TENFOUR_URL", "").rstrip("/")
_public = urlsplit(TENFOUR_URL)
if TENFOUR_URL and (_public.scheme not in ("http", "https") or not _public.hostname):
    raise ImproperlyConfigured(
        f"TENFOUR_URL must look like https://tenfour.example.org, not {TENFOUR_URL!r}."
    )
SECURE = _public.scheme == "https"
globals().update(single_sign_on.build_settings(TENFOUR, secret, is_secure=SECURE))
# Links in responses begin with this address and never with the Host header, which anyone can
# forge: a problem or an escalation that is passed on would lead to another server.
LINK_URL = (
    TENFOUR_URL
    or os.environ.get("TENFOUR_LOCAL_URL")  # the address that the web server is bound to
    or f"http://127.0.0.1:{os.environ.get('TENFOUR_PORT') or 8000}"
)

SECRET_KEY = secret("TENFOUR_SECRET_KEY")
if len(SECRET_KEY) < 32:
    raise ImproperlyConfigured("TENFOUR_SECRET_KEY must have at least 32 random characters.")
# Earlier keys: they still verify sessions and decrypt the secrets of channels.
SECRET_KEY_FALLBACKS = env.list("TENFOUR_SECRET_KEY_FALLBACKS", default=[])
DEBUG = False
ALLOWED_HOSTS = env.list("TENFOUR_HOSTS", default=[_public.hostname] if TENFOUR_URL else ["*"])
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
    "config.requests.middleware.RedisAway",
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
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# ---- PostgreSQL

DATABASES = {"default": environ.Env.db_url_config(secret("DATABASE_URL"))}
DATABASES["default"] |= {
    "ENGINE": "config.postgres",
    # Web threads keep their connection. The worker's threads share a pool instead, because Celery
    # closes connections around every job (stack of the worker: TENFOUR_DB_POOL=1).
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
    DATABASES["default"]["OPTIONS"] |= {
        "prepare_threshold": 5,
        # Prepared statements (ledger/database/sql.py) are written for one plan. By default, PostgreSQL plans
        # a claim again at every call once its tables have grown since it first compared plans, and
        # compiles statements that take a millisecond to run.
        "options": "-c lock_timeout=10s -c statement_timeout=60s"
        " -c idle_in_transaction_session_timeout=60s"
        " -c plan_cache_mode=force_generic_plan -c jit=off",
    }
else:
    # A transaction pooler stands between: it keeps neither cursors nor a session's settings.
    DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True
if flag("TENFOUR_DB_POOL", False):
    DATABASES["default"]["CONN_MAX_AGE"] = 0
    DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": 1, "max_size": 8, "timeout": 5}

if os.environ.get("TENFOUR_REPLICA_URL") or os.environ.get("TENFOUR_REPLICA_URL_FILE"):
    url = secret("TENFOUR_REPLICA_URL")
    globals().update(replica_settings.build_settings(DATABASES, MIDDLEWARE, url))

# ---- Redis: Celery's broker and the counter of failed sign-ins; it holds no facts

REDIS_URL = secret("REDIS_URL")
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

LOG_JSON = flag("TENFOUR_LOG_JSON", False)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "lines": {"()": "config.monitoring.logs.formatter", "as_json": LOG_JSON},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("TENFOUR_LOG_LEVEL", "INFO")},
    "loggers": {
        "django.server": {"handlers": [], "propagate": True},
        "django": {"handlers": [], "level": "INFO"},
        # One line a request or a job says nothing that metrics and journal do not.
        "httpx2": {"handlers": [], "level": "WARNING"},
        "celery.beat": {"handlers": [], "level": "WARNING"},  # it tells of every tick
        "celery.app.trace": {"handlers": [], "level": "WARNING"},
        "celery.worker.strategy": {"handlers": [], "level": "WARNING"},
        # It calls each expired job revoked; config/background/expired_jobs.py counts them.
        "celery.worker.request": {"handlers": [], "level": "WARNING"},
    },
}
