"""Settings, all from the environment; `docs/operator/configuration.md` lists them.

A secret may also be in the file that `NAME_FILE` names, or `NAME_COMMAND` prints it. If
DEBUG is on, the service generates missing secrets once and stores them in DATA_DIR. If
DEBUG is off, it refuses to start if one is missing.
"""

import logging
import os
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from environs import Env

import verification
from verification.backoffice.navigation import UNFOLD as UNFOLD
from verification.db import embedded
from verification.extras import missing_extra
from verification.settings.accounts import *  # noqa: F403
from verification.settings.connections import (
    COUNT,
    SPAN,
    admin_networks,
    audit_export_url,
    certificates_file,
    count_processors,
    database_settings,
    document_storage,
    host_name,
    mail_settings,
    mailbox,
    one_line,
    outbound_proxy,
    own_certificate_file,
    primary_url,
    process_count,
    proxy_addresses,
    redis_address,
    scanner_address,
    web_address,
)
from verification.settings.providers import (
    credit_bureaus,
    find_missing_credentials,
    find_route_errors,
    live_providers,
    payment_providers,
    source_limits,
    source_routes,
)
from verification.settings.secrets import (
    field_keys,
    header_secret,
    is_deployment_check,
    lookup_key,
    optional_secret,
    secret_key,
    signing_key,
)
from verification.web import log

env = Env()
VERSION = verification.__version__
BASE_DIR = Path(__file__).resolve().parents[2]
# A checkout has the templates beside the package, a wheel inside.
TEMPLATES_DIR = BASE_DIR / "templates"
if not TEMPLATES_DIR.is_dir():
    TEMPLATES_DIR = BASE_DIR / "verification" / "templates"
# The API document, which `make openapi` writes
OPENAPI_FILE = BASE_DIR / "docs" / "openapi.yaml"
if not OPENAPI_FILE.is_file():
    OPENAPI_FILE = BASE_DIR / "verification" / "openapi.yaml"
# The guides for developers of clients, which `/docs` serves
GUIDES_DIR = BASE_DIR / "docs" / "client"
if not GUIDES_DIR.is_dir():
    GUIDES_DIR = BASE_DIR / "verification" / "guides"
# The output of `make clients`; a release has it inside the package.
CLIENTS_DIR = BASE_DIR / "clients" / "dist"
if not CLIENTS_DIR.parent.is_dir():
    CLIENTS_DIR = BASE_DIR / "verification" / "clients"
DATA_DIR = embedded.data_dir()
DEBUG = env.bool("DEBUG", False)

SECRET_KEY = secret_key(DATA_DIR, development=DEBUG)
# Signs certificates of erasures. If it is empty, `privacy.certificates` derives a key.
SIGNING_KEY = signing_key()
FIELD_KEYS = field_keys(DATA_DIR, development=DEBUG)
COMPRESS_SEALED_VALUES = env.bool("COMPRESS_SEALED_VALUES", False)
LOOKUP_KEY = lookup_key(DATA_DIR, development=DEBUG)

PORT = env.int("PORT", 8000)
BASE_URL = web_address("BASE_URL", f"http://localhost:{PORT}").rstrip("/")
SANDBOX_HOST = host_name("SANDBOX_HOST")
PRODUCTION_HOST = host_name("PRODUCTION_HOST")
ALLOWED_HOSTS = env.list(
    "ALLOWED_HOSTS",
    ["*"]
    if DEBUG
    else [
        str(urlsplit(BASE_URL).hostname),
        *filter(None, [SANDBOX_HOST, PRODUCTION_HOST]),
        "localhost",
        "127.0.0.1",
    ],
)
# The number of wrong keys that an address may try in a minute.
FAILED_AUTHENTICATIONS_PER_MINUTE = env.int(
    "FAILED_AUTHENTICATIONS_PER_MINUTE", 60, validate=COUNT
)
# Addresses of proxies whose X-Forwarded-For is trusted.
TRUSTED_PROXIES = proxy_addresses(env.list("TRUSTED_PROXIES", []))
# Networks that the admin opens from; from everywhere if there are none.
ADMIN_NETWORKS = admin_networks(env.list("ADMIN_NETWORKS", []))

# The admin takes 13 MB and half a second, so job processes do not load it. The web
# server that `run` forks loads it with the URLs.
RUNS_JOBS = "JOB_CLUSTER" in os.environ or bool(
    {"jobs", "qcluster", "run"}.intersection(sys.argv[1:2])
)
ADMIN = "SimpleAdminConfig" if RUNS_JOBS else "AdminConfig"
INSTALLED_APPS = [
    # Before the admin and allauth, whose texts it replaces.
    "verification.console",
    # Before the admin, whose templates it replaces.
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin.apps." + ADMIN,
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.postgres",
    # Before allauth, whose templates and texts it replaces.
    "verification.accounts",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "axes",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "verification.backoffice",
    # Before django_q: our `qcluster` replaces its own.
    "verification.jobs",
    "django_q",
    "verification.notifications",
    "workspaces",
    "webhooks",
    "verification.reports",
    "verification.consents",
    "verification.payments",
    "verification.references",
    "verification.watchlists",
    "verification.sources",
    "verification.checks",
    "verification.decisions",
    "verification.digests",
    "verification.golive",
    "verification.batches",
    "monitoring",
    "verification.privacy",
    "verification.figures",
    "verification.audit_trail",
    "verification.staff",
    "verification.hosted",
    "verification.api",
    "verification.backups",
    *(["verification.development"] if DEBUG else []),
    # After `development`, whose `runserver` refuses addresses of other machines.
    "django.contrib.staticfiles",
]

MIDDLEWARE = [
    "verification.web.middleware.RequestLogMiddleware",
    # These three act on every response, also on refusals of the others.
    "verification.web.middleware.TransportMiddleware",
    "verification.web.middleware.PolicyMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "verification.web.middleware.ProblemMiddleware",
    "verification.web.middleware.CompressionMiddleware",
    "verification.web.middleware.RefusalMiddleware",
    "verification.web.middleware.PageMiddleware",
    "verification.web.middleware.StaticMiddleware",
    "verification.web.middleware.LocalTimeMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "verification.web.middleware.HostMiddleware",
    "verification.web.middleware.FormMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "verification.web.middleware.SessionLimitsMiddleware",
    "verification.web.middleware.StaffMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "verification.urls"
WSGI_APPLICATION = "verification.wsgi.application"
if DEBUG:
    DEFAULT_EXCEPTION_REPORTER_FILTER = (
        "verification.development.local_pages.ReporterFilter"
    )
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [TEMPLATES_DIR],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "verification.web.pages.operator_context",
            ],
            # The libraries that our templates use without `{% load %}`
            "builtins": [
                "django.templatetags.i18n",
                "django.templatetags.static",
                "django.templatetags.tz",
                "verification.console.templatetags.console",
                "verification.console.templatetags.parts",
                "verification.hosted.templatetags.fields",
                "verification.hosted.templatetags.bdi",
                "verification.web.page_tags",
            ],
        },
    }
]

if embedded.is_used() and not is_deployment_check():
    if _refusal := missing_extra("embedded"):
        raise ImproperlyConfigured(_refusal)
    if optional_secret("DATABASE_DIRECT_URL"):
        raise ImproperlyConfigured("DATABASE_DIRECT_URL needs DATABASE_URL; set both.")
DATABASE_URL = primary_url(optional_secret("DATABASE_URL") or embedded.url(DATA_DIR))
# The database without a pooler. Commands use it, the job cluster included, because they
# need what some poolers lack: LISTEN, locks of a session, and long statements.
DATABASE_DIRECT_URL = (
    primary_url(optional_secret("DATABASE_DIRECT_URL")) or DATABASE_URL
)
# The server on which `restore_drill` makes its database
DRILL_DATABASE_URL = (
    primary_url(optional_secret("DRILL_DATABASE_URL")) or DATABASE_DIRECT_URL
)
IS_DIRECT = DATABASE_DIRECT_URL != DATABASE_URL and Path(sys.argv[0]).name in {
    "manage.py",
    "verification",
}
# Each may be the value of the one before, which a refusal then names.
_pooled, _direct, _ = (
    database_settings("DATABASE_URL", DATABASE_URL),
    database_settings("DATABASE_DIRECT_URL", DATABASE_DIRECT_URL),
    database_settings("DRILL_DATABASE_URL", DRILL_DATABASE_URL),
)
DATABASES: dict[str, Any] = {"default": _direct if IS_DIRECT else _pooled}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# `verification.tracing` and the library read them by themselves.
_collectors = (
    web_address("OTEL_EXPORTER_OTLP_ENDPOINT"),
    web_address("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
)
if any(_collectors) and (_refusal := missing_extra("otel")):
    raise ImproperlyConfigured(_refusal)

REDIS_URL = redis_address()
if REDIS_URL and (_refusal := missing_extra("redis")):
    raise ImproperlyConfigured(_refusal)
# Each process has a cache of its own: logins and pages go on while Redis is away.
CACHES: dict[str, Any] = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
}
if REDIS_URL:
    CACHES["rates"] = {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 1},
    }

if DEBUG and not optional_secret("EMAIL_URL"):
    EMAIL_BACKEND = "verification.notifications.mailbox.EmailBackend"
    EMAIL_FILE_PATH = mailbox(DATA_DIR)
else:
    globals().update(mail_settings(optional_secret("EMAIL_URL") or "smtp://localhost"))
DEFAULT_FROM_EMAIL = one_line("EMAIL_FROM", f"no-reply@{urlsplit(BASE_URL).hostname}")

# SMS are sent if both are set; SMS_URL is for a server other than the provider's.
AFRICASTALKING_USERNAME = one_line("AFRICASTALKING_USERNAME")
AFRICASTALKING_API_KEY = header_secret("AFRICASTALKING_API_KEY")
SMS_FROM = one_line("SMS_FROM")
SMS_URL = web_address("SMS_URL")

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("sw", "Kiswahili")]
# The time zone of the API and of jobs; pages use Nairobi's
# (`verification.values.local_time.format_nairobi`).
TIME_ZONE = "UTC"
# The default pattern of times on pages; T is the label, EAT.
DATE_FORMAT = "j M Y"
TIME_FORMAT = "H:i"
DATETIME_FORMAT = "j M Y, H:i:s T"
SHORT_DATETIME_FORMAT = "j M Y, H:i T"
FORMAT_MODULE_PATH = "verification.settings.formats"
USE_TZ = True
USE_I18N = True

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "documents": document_storage(DATA_DIR),
    "staticfiles": {"BACKEND": "verification.web.static_files.VersionedStorage"},
}

# host:port of ClamAV's daemon, which scans every document.
CLAMAV = scanner_address()

STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

SILENCED_SYSTEM_CHECKS = [
    # `TransportMiddleware` is Django's SecurityMiddleware, which the check misses.
    "security.W001",
    # `backups.checks` says the same with the variable. These follow from BASE_URL:
    "security.W004",
    "security.W008",
    "security.W011",
    "security.W016",
    # SECRET_KEY, DEBUG and ALLOWED_HOSTS
    "security.W009",
    "security.W018",
    "security.W020",
]
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
DEVICE_COOKIE_NAME = "device"
if BASE_URL.startswith("https://"):
    SECURE_HSTS_SECONDS = 63_072_000
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
    SECURE_SSL_REDIRECT = True
    # Load balancers and orchestrators request these without HTTPS.
    SECURE_REDIRECT_EXEMPT = ["^livez$", "^healthz$", "^readyz$"]
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    SESSION_COOKIE_NAME = "__Host-session"
    CSRF_COOKIE_NAME = "__Host-csrf"
    DEVICE_COOKIE_NAME = "__Host-device"
    LANGUAGE_COOKIE_NAME = "__Host-language"
SESSION_COOKIE_HTTPONLY = True
CSRF_COOKIE_HTTPONLY = True
# In the database: they may name people.
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
CSRF_TRUSTED_ORIGINS = [BASE_URL]
CSRF_FAILURE_VIEW = "verification.web.pages.csrf_failure"

# Pages load styles and images from this host alone, and run no script. The API sends
# its own policy.
CONTENT_SECURITY_POLICY: dict[str, Any] = {
    "EXCLUDE_URL_PREFIXES": ["/api/"],
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "style-src": ["'self'"],
        "img-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    },
}
# The admin's own files need more. `unsafe-eval` is for Alpine, which evaluates
# attributes; inline scripts never run.
ADMIN_POLICY = {
    "script-src": ["'self'", "'unsafe-eval'"],
    "style-src": ["'self'", "'unsafe-inline'"],
    "font-src": ["'self'"],
    "connect-src": ["'self'"],
    "img-src": ["'self'", "data:"],
}

# The API reads at most 2 MiB (contract) and refuses more by itself, with a problem.
MAX_BODY_BYTES = 2 * 1024 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
# A document and its form. An upload stays in memory, so that personal documents are
# never written to disk unencrypted.
MAX_UPLOAD_BYTES = 11 * 1024 * 1024
FILE_UPLOAD_MAX_MEMORY_SIZE = MAX_UPLOAD_BYTES

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["verification.api.authentication.ApiKeyBearer"],
    "DEFAULT_PERMISSION_CLASSES": ["verification.api.authentication.HasScope"],
    "DEFAULT_THROTTLE_CLASSES": ["verification.api.authentication.ApiKeyThrottle"],
    "DEFAULT_RENDERER_CLASSES": ["verification.api.content.JsonRenderer"],
    "DEFAULT_PARSER_CLASSES": ["verification.api.content.StrictJsonParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": (
        "verification.api.content.JsonOnlyNegotiation"
    ),
    "DEFAULT_SCHEMA_CLASS": "verification.api.schema.OperationSchema",
    "EXCEPTION_HANDLER": "verification.api.problems.handle_exception",
    "UNAUTHENTICATED_USER": None,
    # OPTIONS is not among the operations.
    "DEFAULT_METADATA_CLASS": None,
    "DATETIME_FORMAT": "%Y-%m-%dT%H:%M:%S.%fZ",
}

# The general part of the OpenAPI document.
SPECTACULAR_SETTINGS = {
    "TITLE": "Verification report service",
    "VERSION": VERSION,
    "DESCRIPTION": (
        "Verify a person or a company: create reports, let their checks run, read "
        "the results.\n\nAn API key with the prefix `vrf_test_` works in the sandbox, "
        "where `GET /api/v1/sandbox/subjects` lists numbers that decide how a check "
        "ends. Every error is a problem (RFC 9457) whose `type` leads to a page that "
        "explains it. Unknown members and parameters are refused.\n\nAnswers and "
        "events may gain members and values of enumerations at any time: ignore what "
        "you do not know."
    ),
    "LICENSE": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    # Relative: the file is the same on every installation.
    "SERVERS": [
        {
            "url": "/",
            "description": "The installation that serves this document. The key "
            "chooses between its sandbox and production.",
        }
    ],
    "TAGS": [
        {"name": "reports", "description": "Create, launch, follow and read reports."},
        {"name": "checks", "description": "What can be checked, and what it costs."},
        {"name": "packages", "description": "Named sets of checks."},
        {"name": "monitoring", "description": "Run checks again, be told of changes."},
        {"name": "webhooks", "description": "Events, pushed to your own receiver."},
        {"name": "receiver", "description": "What your own receiver gets."},
        {"name": "events", "description": "The same events, pulled by your program."},
        {"name": "corrections", "description": "Findings that subjects call wrong."},
        {"name": "erasures", "description": "Erased subjects, and the certificates."},
        {"name": "policy", "description": "Your own rules that decide about reports."},
        {"name": "exports", "description": "The rows of a period, as a file."},
        {"name": "me", "description": "What the key is, and what it may do."},
        {"name": "balance", "description": "The money of the workspace."},
        {"name": "sandbox", "description": "Subjects with a known outcome."},
    ],
    "WEBHOOKS": "verification.api.events.WEBHOOKS",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": [],
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_SPLIT_PATCH": False,
    "POSTPROCESSING_HOOKS": ["verification.api.schema.complete_webhooks"],
    "SORT_OPERATIONS": True,
}

JOB_WORKERS = process_count("JOB_WORKERS", env.int("JOB_WORKERS", 4))
# A job is a function with `@job` in an app of these packages.
JOB_PACKAGES = {"verification", "workspaces", "webhooks", "monitoring"}
# More processes than processors would answer fewer requests.
WEB_WORKERS = process_count(
    "WEB_WORKERS", env.int("WEB_WORKERS", min(2, count_processors()))
)
# The seconds in which `/healthz` says 503 before the web server stops.
WEB_DRAIN_SECONDS = env.int("WEB_DRAIN_SECONDS", 0, validate=COUNT)
Q_CLUSTER: dict[str, Any] = {
    "name": "verification",
    "broker_class": "verification.jobs.broker.JobBroker",
    # A job is killed after `timeout`. If its worker dies, it runs again within seconds;
    # `retry` is the lease after which any other unfinished job runs again.
    "timeout": 120,
    "retry": 600,
    # A missed schedule runs once.
    "catch_up": False,
    "label": "Jobs",
}

# Longer than any provider may take; a check whose worker died waits this long.
CHECK_LEASE_SECONDS = env.int("CHECK_LEASE_SECONDS", 60, validate=SPAN)
# The operator's name and contact on hosted pages, for people who ask about their data.
OPERATOR_NAME = one_line("OPERATOR_NAME", "Verification reports")
OPERATOR_CONTACT = one_line("OPERATOR_CONTACT", "support@localhost" if DEBUG else "")
PRIVACY_NOTICE_URL = web_address("PRIVACY_NOTICE_URL")
# The number of requests (for consent, payment, a reference, to join) that a person gets
# in a day (UTC) over all workspaces, and that a workspace sends unless staff allow
# more.
MESSAGES_PER_RECIPIENT_PER_DAY = env.int(
    "MESSAGES_PER_RECIPIENT_PER_DAY", 10, validate=COUNT
)
MESSAGES_PER_WORKSPACE_PER_DAY = env.int(
    "MESSAGES_PER_WORKSPACE_PER_DAY", 5000, validate=COUNT
)
# The number of invitations and codes that all workspaces that are not live send in a
# day together.
MESSAGES_OF_NEWCOMERS_PER_DAY = env.int(
    "MESSAGES_OF_NEWCOMERS_PER_DAY", 500, validate=COUNT
)
# Addresses that get operator alerts about payments.
OPERATOR_ALERTS: list[str] = env.list("OPERATOR_ALERTS", [])
# Addresses of the data protection officer, for deadlines of data subjects' requests.
PRIVACY_CONTACTS: list[str] = env.list("PRIVACY_CONTACTS", OPERATOR_ALERTS)
MFA_TOTP_ISSUER = OPERATOR_NAME
CONSENT_LINK_DAYS = env.int("CONSENT_LINK_DAYS", 14, validate=SPAN)
# The lifetime of a link to the subject's own data, sent by the client or staff
ACCESS_LINK_DAYS = env.int("ACCESS_LINK_DAYS", 30, validate=SPAN)
PAYMENT_LINK_DAYS = env.int("PAYMENT_LINK_DAYS", 14, validate=SPAN)
REFERENCE_LINK_DAYS = env.int("REFERENCE_LINK_DAYS", 14, validate=SPAN)
# Days to answer a data subject: Data Protection (General) Regulations, 2021,
# regulations 9 (access), 11 (portability), 10 (rectification), 7 and 8 (restriction,
# objection) and 12 (erasure). Confirm with counsel.
SUBJECT_REQUEST_DAYS = {
    "ACCESS": env.int("ACCESS_DAYS", 7, validate=SPAN),
    "PORTABILITY": env.int("PORTABILITY_DAYS", 30, validate=SPAN),
    "CORRECTION": env.int("CORRECTION_DAYS", 14, validate=SPAN),
    "OBJECTION": env.int("OBJECTION_DAYS", 14, validate=SPAN),
    "ERASURE": env.int("ERASURE_DAYS", 14, validate=SPAN),
    # Data Protection Act, 2019, section 35 (3): within a reasonable time
    "REVIEW": env.int("REVIEW_DAYS", 14, validate=SPAN),
}
# The texts about credit bureaus in notices of declines
CREDIT_BUREAUS = credit_bureaus()
IDEMPOTENCY_HOURS = 72

# The payment provider in production: "paystack", "stripe" or "". Checkouts of another
# provider are still polled while its key is configured.
PAYMENT_PROVIDER = env.str("PAYMENT_PROVIDER", "")
PAYMENT_PROVIDERS = payment_providers(PAYMENT_LINK_DAYS)
# A refund above this amount, in the currency of the payment, needs two people.
REFUND_UNDONE_AFTER_MINUTES = env.int("REFUND_UNDONE_AFTER_MINUTES", 10, validate=COUNT)
REFUND_NEEDS_SECOND_ABOVE = env.decimal(
    "REFUND_NEEDS_SECOND_ABOVE", Decimal(5000), validate=COUNT
)
# So does a booking by staff above this amount, summed over a day.
STAFF_ENTRY_NEEDS_SECOND_ABOVE = env.decimal(
    "STAFF_ENTRY_NEEDS_SECOND_ABOVE", Decimal(5000), validate=COUNT
)

# The identity providers of e-mail domains, by ID
IDENTITY_PROVIDERS: dict[str, Any] = {}
if _given := optional_secret("IDENTITY_PROVIDERS"):
    # Imported here: without providers each command starts 0.1 s sooner.
    from verification.settings.identity_providers import read_providers

    IDENTITY_PROVIDERS = read_providers(_given)

# The proxy and further certificates for all calls to other systems over HTTP.
OUTBOUND_PROXY = outbound_proxy()
OUTBOUND_CA_FILE = certificates_file(
    "OUTBOUND_CA_FILE", env.str("OUTBOUND_CA_FILE", "")
)

# For development: hosts (`host` or `host:port`) that may be called at any address, and
# a file of certificates that are trusted in addition to the system's.
WEBHOOK_DEV_HOSTS: frozenset[str] = frozenset(env.list("WEBHOOK_DEV_HOSTS", []))
WEBHOOK_CA_FILE = certificates_file("WEBHOOK_CA_FILE", env.str("WEBHOOK_CA_FILE", ""))
# The limit from the look-up of the name to the last byte of the response.
WEBHOOK_TIMEOUT_SECONDS = 15.0

# Live sources by name, and the routes; the sandbox uses neither.
PROVIDERS = live_providers()
PROVIDERS_LACK = find_missing_credentials()
SOURCE_ROUTES = source_routes()
SOURCE_ROUTES_WRONG = find_route_errors()
SOURCE_LIMITS = source_limits()
# True in development without a live business register: the sandbox then answers the
# checks of companies that apply to go live.
AT_HOME = DEBUG and not any(
    source in PROVIDERS
    for sources in SOURCE_ROUTES["BUSINESS_VERIFICATION"].values()
    for source in sources
)
GO_LIVE_ENVIRONMENT = "sandbox" if AT_HOME else "production"

# A scrape of /metrics sends this token; without a token there is no such page.
METRICS_TOKEN = header_secret("METRICS_TOKEN")

# The operator's log store, which gets the audit trail.
AUDIT_EXPORT_URL = audit_export_url(env.str("AUDIT_EXPORT_URL", ""))
AUDIT_EXPORT_TOKEN = header_secret("AUDIT_EXPORT_TOKEN")
AUDIT_EXPORT_CA_FILE = certificates_file(
    "AUDIT_EXPORT_CA_FILE", env.str("AUDIT_EXPORT_CA_FILE", "")
)
AUDIT_EXPORT_CERTIFICATE_FILE = own_certificate_file(
    "AUDIT_EXPORT_CERTIFICATE_FILE", env.str("AUDIT_EXPORT_CERTIFICATE_FILE", "")
)
# Prometheus inside a cluster cannot say that a proxy has ended TLS.
METRICS_OVER_HTTP = env.bool("METRICS_OVER_HTTP", False)
# The alerts compare these numbers with the real ones.
EXPECTED_JOB_CLUSTERS = env.int("EXPECTED_JOB_CLUSTERS", 1, validate=COUNT)
EXPECTED_STANDBYS = env.int("EXPECTED_STANDBYS", 0, validate=COUNT)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {"()": "pythonjsonlogger.orjson.OrjsonFormatter"} | log.FORMAT
    },
    "filters": {
        "request_id": {"()": "verification.web.log.RequestIdFilter"},
        "secrets": {"()": "verification.web.log.SecretsFilter"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "json",
            "filters": ["request_id", "secrets"],
        }
    },
    "root": {"handlers": ["stderr"], "level": env.log_level("LOG_LEVEL", logging.INFO)},
    "loggers": {
        # Its own handler would write plain lines without our filters.
        "django": {"handlers": [], "propagate": True},
        # Django logs the path of a refused request, and paths can hold tokens; the
        # request log says the same by route.
        "django.request": {"level": "CRITICAL"},
        "django.server": {"level": "CRITICAL"},
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        "django.security.csrf": {"level": "CRITICAL"},
        # A form that is too large is no error of the service.
        "django.security.TooManyFieldsSent": {"level": "CRITICAL"},
        "django.security.TooManyFilesSent": {"level": "CRITICAL"},
        "django.security.RequestDataTooBig": {"level": "CRITICAL"},
        # It logs paths, which may hold a name, at DEBUG and of answers that are broken.
        "urllib3": {"level": "ERROR"},
        # Its lines hold addresses.
        "axes": {"level": "CRITICAL"},
        # A developer does not compare the log with the anchors.
        "verification.audit_trail": {"level": "WARNING" if DEBUG else "NOTSET"},
        "django-q": {"level": "WARNING", "handlers": ["stderr"], "propagate": False},
    },
}
