"""The files in `deploy/`: they name what exists, and the tools accept them."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import psycopg
import pytest
import requests
import yaml
from django.conf import settings
from django.core.management import get_commands
from django.db import connection
from django.utils.translation import gettext, override
from dotenv import dotenv_values
from psycopg.conninfo import conninfo_to_dict

from tests.configuration.test_refusals_to_start import database_url
from tests.docs.test_configuration import DOCUMENTED, ROWS
from tests.world.receiver import Receiver, Script
from tests.world.web_proxies import (
    DEPLOY,
    Caddy,
    Nginx,
    WebProxy,
    nginx_command,
    nginx_site,
    required,
)
from verification.db import embedded
from verification.jobs.worker import GRACE_SECONDS
from verification.settings.secrets import field_keys, lookup_key, secret_key

COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
OF_THE_SERVICE = ("web1", "web2", "jobs", "setup", "backup")
ADDRESS = (DEPLOY / "address.env").read_text()
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
UNITS = sorted((DEPLOY / "systemd").glob("verification-*.*"))
SECRETS = {cell.split("`")[1] for cell, _, _ in ROWS if cell.endswith("*secret*")}
ENV_FILES = ["address.env", "verification.env"]
DATABASE_SECRETS = {"database_password", "superuser_password", "pgbackrest.conf"}
# WEB_SERVERS is for Caddy alone.
KNOWN = DOCUMENTED | {f"{name}_FILE" for name in SECRETS} | {"WEB_SERVERS"}
# Variables of Python, the shell and PostgreSQL's image
FOREIGN = re.compile(r"PATH|PYTHON\w+|POSTGRES_\w+")


def run(*command: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_variable_is_a_documented_setting():
    files = (DEPLOY / "verification.env").read_text() + ADDRESS
    env = re.findall(r"^#?(\w+)=", files, re.MULTILINE)
    caddy = re.findall(r"\{\$(\w+)", (DEPLOY / "Caddyfile").read_text())
    units = re.findall(
        r"^Environment=(\w+)=",
        "".join(u.read_text() for u in UNITS if u.is_file()),
        re.MULTILINE,
    )
    image = re.findall(r"^(?:ENV|   ) (\w+)=", CONTAINERFILE, re.MULTILINE)
    services = COMPOSE["services"].values()
    compose = [name for one in services for name in one.get("environment", {})]

    # The units may leave everything to the file of settings.
    assert all((env, caddy, image, compose))
    for names in (env, caddy, units, image, compose):
        assert {n for n in names if not FOREIGN.fullmatch(n)} - KNOWN == set()


def test_image_copies_what_its_context_holds():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE, re.MULTILINE)
    script = (DEPLOY / "build-release").read_text()

    assert [names.split() for names in copied] == [
        ["requirements.lock", "verification_report_service-*"],
        ["lighten-image"],
    ]
    files = "deploy/{Containerfile,lighten-image,requirements.lock}"
    assert f'{files} "$folder/$wheel" "$work/image/"' in script
    assert 'cp "$folder/$sbom" "$work/image/"' in script


def test_image_runs_as_a_user_with_run_time_dependencies_alone():
    last = CONTAINERFILE.split("\nFROM ")[-1]

    assert re.search(r"^USER (?!root|0)\w+$", last, re.MULTILINE)
    assert "HEALTHCHECK" in last
    assert "pip install" not in last
    assert "--require-hashes" in CONTAINERFILE


def test_containers_have_no_rights_and_secrets_in_files():
    for name in (*OF_THE_SERVICE, "proxy"):
        service = COMPOSE["services"][name]
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    database = COMPOSE["services"]["database"]
    assert database["security_opt"] == ["no-new-privileges:true"]
    for name in OF_THE_SERVICE:
        held = {entry["target"] for entry in COMPOSE["services"][name]["secrets"]}
        assert held == {
            f"/etc/verification/secrets/{name}"
            for name in COMPOSE["secrets"].keys() - DATABASE_SECRETS
        }


def test_proxies_get_the_address_and_no_other_setting():
    drop_in = (DEPLOY / "systemd/caddy.service.d/verification.conf").read_text()
    installed = re.findall(r"^EnvironmentFile=(.*)$", drop_in, re.MULTILINE)
    read = set(re.findall(r"\{\$(\w+)", (DEPLOY / "Caddyfile").read_text()))
    named = set(re.findall(r"^#?(\w+)=", ADDRESS, re.MULTILINE))

    assert installed == ["/etc/verification/address.env"]
    assert COMPOSE["services"]["proxy"]["env_file"] == "address.env"
    assert "secrets" not in COMPOSE["services"]["proxy"]
    assert read == named
    assert not named & SECRETS


def test_service_reads_the_address_too():
    drop_in = (DEPLOY / "systemd/verification-.service.d/hardening.conf").read_text()
    files = [f"/etc/verification/{name}" for name in ENV_FILES]
    read = re.findall(r"^EnvironmentFile=(.*)$", drop_in, re.MULTILINE)
    command = (DEPLOY / "verification").read_text()

    assert read == re.findall(r"^\. (.*)$", command, re.MULTILINE) == files
    for name in OF_THE_SERVICE:
        assert COMPOSE["services"][name]["env_file"] == ENV_FILES


def test_services_wait_for_the_folder_of_documents():
    unit = (DEPLOY / "systemd/verification-.service.d/hardening.conf").read_text()
    (folder,) = re.findall(r"^StateDirectory=(.*)$", unit, re.MULTILINE)

    first = unit.split("[Service]")[0]
    assert f"\nRequiresMountsFor=/var/lib/{folder}/documents\n" in first


def test_containers_keep_few_logs_and_have_time_to_stop():
    seconds = {"jobs": 45, "web1": 40, "web2": 40, "database": 60}
    for name, service in COMPOSE["services"].items():
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}, name
        least = seconds.get(name, 0)
        assert int(service.get("stop_grace_period", "10s")[:-1]) >= least, name


def test_containers_have_limits_of_memory_and_processes():
    for name, service in COMPOSE["services"].items():
        assert service.keys() >= {"mem_limit", "pids_limit"}, name


def test_no_command_in_a_container_migrates_first():
    for name in OF_THE_SERVICE:
        needs = COMPOSE["services"][name]["depends_on"]
        assert needs == {"database": {"condition": "service_healthy"}}, name
    assert "depends_on" not in COMPOSE["services"]["database"]
    # So they try again until the tables are there.
    restarts = [COMPOSE["services"][name]["restart"] for name in OF_THE_SERVICE]
    assert restarts == [*["unless-stopped"] * 3, "on-failure", "no"]


def test_containers_listen_where_the_proxy_looks_whatever_the_files_say():
    image = dict(re.findall(r"^    (HOST|PORT)=(\S+)", CONTAINERFILE, re.MULTILINE))
    assert image.keys() == {"HOST", "PORT"}
    for name in OF_THE_SERVICE:
        assert COMPOSE["services"][name]["environment"].items() >= image.items(), name


def test_pages_run_backups_where_their_volume_is():
    found = set()
    for page in (settings.BASE_DIR / "docs").rglob("*.md"):
        run_in = r"docker compose run --rm (?:-T )?(\w+)([^`|\n]*)"
        for name, command in re.findall(run_in, page.read_text()):
            volumes = COMPOSE["services"][name]["volumes"]
            needs = re.search(r"/var/backups|restore", command)
            assert not needs or "backups:/var/backups/verification" in volumes, command
            found |= set(re.findall(r"verification (\w+)", command))

    assert {"restore", "restore_drill", "createsuperuser"} <= found
    assert found <= get_commands().keys()


@pytest.mark.django_db
def test_role_of_compose_is_no_superuser_and_owns_its_database(tmp_path: Path):
    name = f"{connection.settings_dict['NAME']}_compose"
    (tmp_path / "password").write_text("s3'cret")
    script = (DEPLOY / "create-database").read_text()
    script = script.replace(
        "/run/secrets/database_password", str(tmp_path / "password")
    )
    script = re.sub(r"(ROLE|DATABASE|OWNER|TO) verification\b", rf"\1 {name}", script)
    (tmp_path / "create-database").write_text(script)
    server = conninfo_to_dict(database_url("postgres", "postgres"))
    with psycopg.connect(**server, autocommit=True) as admin:
        try:
            done = run(
                *("sh", tmp_path / "create-database"),
                PATH=f"{embedded.programs()}:{os.environ['PATH']}",
                POSTGRES_USER=str(server["user"]),
                PGHOST=str(server["host"]),
                PGPASSWORD=str(server.get("password", "")),
            )
            assert (done.returncode, done.stderr) == (0, "")
            role = admin.execute(
                "SELECT rolsuper, rolcreaterole, rolcreatedb, rolcanlogin,"
                " rolpassword LIKE 'SCRAM%%' FROM pg_authid WHERE rolname = %s",
                [name],
            ).fetchone()
            monitors = admin.execute(
                "SELECT pg_has_role(%s, 'pg_monitor', 'USAGE')", [name]
            ).fetchone()
            database = admin.execute(
                "SELECT pg_get_userbyid(datdba), pg_encoding_to_char(encoding)"
                " FROM pg_database WHERE datname = %s",
                [name],
            ).fetchone()
        finally:
            admin.execute(f"DROP DATABASE IF EXISTS {name}")
            admin.execute(f"DROP ROLE IF EXISTS {name}")

    assert role == (False, False, True, True, True)
    assert database == (name, "UTF8")
    assert monitors == (True,)
    assert "POSTGRES_USER" not in COMPOSE["services"]["database"]["environment"]


def test_compose_names_existing_volumes_secrets_and_services():
    for name, service in COMPOSE["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            exists = (
                (DEPLOY / source).is_file()
                if source.startswith("./")
                else source in COMPOSE["volumes"]
            )
            assert exists, (name, volume)
        for secret in service.get("secrets", []):
            source = secret if isinstance(secret, str) else secret["source"]
            assert source in COMPOSE["secrets"]
        assert set(service.get("depends_on", [])) <= COMPOSE["services"].keys()


def test_make_secrets_makes_each_secret_once(tmp_path, monkeypatch):
    first = run(DEPLOY / "make-secrets", tmp_path / "secrets")
    made = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    again = run(DEPLOY / "make-secrets", tmp_path / "secrets")

    assert (first.returncode, again.returncode, again.stdout) == (0, 0, "")
    assert made == {p.name: p.read_text() for p in (tmp_path / "secrets").iterdir()}
    assert made.keys() == COMPOSE["secrets"].keys()
    assert {p.stat().st_mode & 0o777 for p in (tmp_path / "secrets").iterdir()} == {
        0o600
    }
    for name, read in (
        ("SECRET_KEY", secret_key),
        ("FIELD_KEYS", field_keys),
        ("LOOKUP_KEY", lookup_key),
    ):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / "secrets" / name.lower()))
        assert read(tmp_path, development=False)


def test_settings_file_names_the_secrets_that_are_made(tmp_path):
    run(DEPLOY / "make-secrets", tmp_path)
    named = re.findall(
        r"_FILE=/etc/verification/secrets/(\w+)$",
        (DEPLOY / "verification.env").read_text(),
        re.MULTILINE,
    )

    assert set(named) <= {path.name for path in tmp_path.iterdir()}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The root of a machine with our units, and empty files for their programs."""
    host = Path("/usr/lib/systemd/system")
    if not host.is_dir():
        pytest.skip("systemd is not installed")
    shutil.copytree(host, tmp_path / "usr/lib/systemd/system", symlinks=True)
    shutil.copytree(DEPLOY / "systemd", tmp_path / "etc/systemd/system")
    for program in (
        "opt/verification/bin/verification",
        "opt/verification/bin/verification-web",
    ):
        _make_program(tmp_path / program)
    for program in ("bin/sh", "usr/bin/env"):
        _make_program(tmp_path / program)
    return tmp_path


def _make_program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o755)


@pytest.mark.slow
def test_systemd_accepts_the_units(machine: Path):
    names = [unit.name for unit in UNITS if unit.is_file()]
    done = run(required("systemd-analyze"), "verify", f"--root={machine}", *names)

    assert (done.returncode, done.stderr) == (0, "")
    assert len(names) == 6


def unit_command(unit: str, key: str, folder: Path) -> list[str]:
    """Return the unit's command, for the folder in place of that of the backups."""
    text = (DEPLOY / "systemd" / unit).read_text().replace("\\\n", "")
    (line,) = re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)
    line = line.replace("/var/backups/verification", str(folder))
    return shlex.split(line.replace("$$", "$"))


def test_restore_drill_takes_the_newest_backup_or_says_that_there_is_none(
    tmp_path: Path,
):
    unit = "verification-restore-drill.service"
    command = unit_command(unit, "ExecStart", tmp_path)
    command[-1] = command[-1].replace("/opt/verification/bin/verification", "echo")

    refused = run(*command)
    for name in ("20261101T003012Z", "20261123T003012Z", "20261124T003012Z.partial"):
        (tmp_path / name).mkdir()
    done = run(*command)

    assert refused.returncode == 1
    assert refused.stderr.startswith(f"No backup is in {tmp_path}; run: systemctl ")
    assert done.stdout == f"restore_drill {tmp_path}/20261123T003012Z\n"


@pytest.mark.parametrize("has_other_keys", [True, False])
def test_start_fails_at_once_when_the_web_server_ended_or_has_other_keys(
    tmp_path: Path, has_other_keys: bool
):
    command = unit_command("verification-web@.service", "ExecStartPost", tmp_path)
    refusal = Script(status=503, body=b'{"status": "refuses the keys"}')
    with subprocess.Popen(["true"]) as ended, Receiver(None) as server:
        server.scripts["/healthz"] = refusal if has_other_keys else Script(status=503)
        command[-1] = command[-1].replace("%i", str(server.port))
        command[-1] = command[-1].replace("sleep 1;", "")
        ended.wait()

        done = run(*command, HOST="127.0.0.1", MAINPID=str(ended.pid))

    assert done.returncode == 1
    assert ("refuses the keys" if has_other_keys else "No such process") in done.stderr


def test_jobs_may_end_before_they_are_killed():
    unit = (DEPLOY / "systemd" / "verification-jobs.service").read_text()
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)

    # Only the cluster gets SIGTERM; it stops its workers.
    assert "\nKillMode=mixed\n" in unit
    assert int(seconds) >= GRACE_SECONDS + 5
    compose = COMPOSE["services"]["jobs"]["stop_grace_period"]
    assert int(compose.removesuffix("s")) >= GRACE_SECONDS + 5


def test_proxies_know_the_web_servers_that_the_pages_start():
    pages = "".join(
        page.read_text() for page in (settings.BASE_DIR / "docs").rglob("*.md")
    )
    ports = set(re.findall(r"verification-web@(\d+)", pages))
    nginx, caddy = ((DEPLOY / n).read_text() for n in ("nginx.conf", "Caddyfile"))

    assert (
        ports == set(re.findall(r"server 127.0.0.1:(\d+)", nginx)) == {"8000", "8001"}
    )
    assert set(re.findall(r"\{\$WEB_SERVERS:(.*?)\}", caddy)) == {
        "127.0.0.1:8000 127.0.0.1:8001"
    }


@pytest.mark.slow
def test_systemd_finds_the_services_confined(machine: Path):
    names = [unit.name for unit in UNITS if unit.suffix == ".service"]
    analyze = [required("systemd-analyze"), "security", "--offline=true", "--no-pager"]
    for name in names:
        # Of 10 at most 2, in tenths; 9.6 is a service without any such setting.
        done = run(*analyze, f"--root={machine}", "--threshold=20", name)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_nginx_accepts_its_configuration(tmp_path: Path):
    # `nginx -t` binds the addresses, so others than those of a server on this machine.
    command = nginx_command(tmp_path, nginx_site(tmp_path, f"unix:{tmp_path}/80"))

    done = run(*command, "-t", "-q")

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_caddy_accepts_its_configuration(tmp_path: Path):
    done = run(
        *(required("caddy"), "validate", "--adapter", "caddyfile"),
        *("--config", DEPLOY / "Caddyfile"),
        BASE_URL="https://reports.example.com",
        HOME=str(tmp_path),
    )

    assert done.returncode == 0, done.stderr


def test_page_of_the_proxies_is_small_and_says_the_same_as_the_services():
    page = (DEPLOY / "away.html").read_text()
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    texts = re.findall(r"<(?:h1|h2|p)>(.*?)</", page)

    assert f"style-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href|action)=", page)
    assert len(page) < 4000
    half = len(texts) // 2
    with override("sw"):
        assert [gettext(text) for text in texts[:half]] == texts[half:]
    service = (settings.BASE_DIR / "templates/503.html").read_text()
    assert all(text in service for text in texts[:half])


def test_proxies_show_pages_of_operators_to_this_machine_alone():
    nginx, caddy = ((DEPLOY / n).read_text() for n in ("nginx.conf", "Caddyfile"))

    for path in ("/metrics", "/readyz"):
        (block,) = re.findall(rf"location = {path} {{(.*?)}}", nginx, re.DOTALL)
        rules = re.findall(r"(?:allow|deny) .*;", block)
        assert rules == ["allow 127.0.0.1;", "allow ::1;", "deny all;"]
    (block,) = re.findall(r"@private {\n(.*?)}", caddy, re.DOTALL)
    lines = [line.strip() for line in block.splitlines()]
    assert [line for line in lines if line[:1] not in ("", "#")] == [
        "path /metrics /metrics/* /readyz",
        "not remote_ip 127.0.0.1 ::1",
    ]
    assert "\trespond @private 404\n" in caddy


class Figures(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.server.server_port} {self.path}".encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def machines() -> Iterator[list[int]]:
    """The ports of two web servers that tell which one they are."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Figures) for _ in range(2)]
    for server in servers:
        Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    yield [server.server_port for server in servers]
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("kind", [Nginx, Caddy])
def test_missing_proxy_skips_its_test_and_leaves_no_folder(
    kind: type[WebProxy], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    proxy = kind(1)

    with pytest.raises(pytest.skip.Exception), proxy:
        pass

    assert not proxy.folder.exists()


@pytest.mark.parametrize("kind", [Nginx, Caddy])
def test_proxies_ask_each_web_server_for_its_figures(
    kind: type[WebProxy], machines: list[int]
):
    first, second = machines
    with kind(first, second) as proxy:
        answers = [
            requests.get(f"{proxy.url}{path}", timeout=10).text
            for path in ("/metrics/web1", "/metrics/web2", "/metrics")
        ]

    assert answers == [f"{port} /metrics" for port in (first, second, first)]


SETTINGS_FILE = (DEPLOY / "verification.env").read_text()
# What docs/operator/configuration.md says of a line in the file of settings
LINE = re.compile(
    r"[A-Z][A-Z0-9_]*=(?:[\w.,:/@%+=-]*|'[^']*'|\"[^\"$`\\]*\")", re.ASCII
)
SETTINGS = r"""
# A comment's "quotes' and $NAMES are left alone.
EMAIL_FROM='Acacia <no-reply@acacia.test>'
OPERATOR_NAME="Ann's Checks; & (more) | all * ~"
EMAIL_URL='submission://a:p$HOME`id`\"#x!@mail.test:587'
OPERATOR_ALERTS=a+b@acacia.test,c@acacia.test
DATABASE_URL=postgresql://u@%2Frun/v
"""


def read_by_shell(file: Path) -> dict[str, str]:
    done = run("env", "-i", "sh", "-euc", f"set -a; . {file}; env")
    assert (done.returncode, done.stderr) == (0, "")
    found = dict(line.split("=", 1) for line in done.stdout.splitlines())
    return {name: value for name, value in found.items() if name != "PWD"}


def read_by_systemd(file: Path) -> dict[str, str]:
    """Read the file with systemd's parser, as its tool for `environment.d` does.

    The tool expands `$NAME` afterwards, which `EnvironmentFile=` does not, and writes
    for a shell.
    """
    generators = Path("/usr/lib/systemd/user-environment-generators")
    tool = generators / "30-systemd-environment-d-generator"
    if not tool.exists():
        pytest.skip("systemd is not installed")
    folder = file.with_name("environment.d")
    folder.mkdir()
    (folder / "50.conf").write_text(file.read_text().replace("$", "\N{EURO SIGN}"))
    done = run("env", "-i", f"XDG_CONFIG_HOME={file.parent}", tool)
    assert (done.returncode, done.stderr) == (0, "")
    (written := file.with_name("written")).write_text(done.stdout)
    names = set(re.findall(r"^(\w+)=", file.read_text(), re.MULTILINE))
    return {
        name: value.replace("\N{EURO SIGN}", "$")
        for name, value in read_by_shell(written).items()
        # It adds those of the machine.
        if name in names
    }


@pytest.mark.parametrize("text", [SETTINGS_FILE, SETTINGS], ids=["shipped", "rule"])
def test_settings_file_means_the_same_to_all_that_read_it(tmp_path: Path, text: str):
    file = tmp_path / "verification.env"
    file.write_text(text)
    lines = [line for line in text.splitlines() if line and line[0] != "#"]

    assert [line for line in lines if not LINE.fullmatch(line)] == []
    by_shell = read_by_shell(file)
    assert len(by_shell) == len(lines)
    # Compose for Podman reads it by this library; Docker's is alike.
    assert by_shell == dotenv_values(file)
    assert by_shell == read_by_systemd(file)


def test_page_states_the_characters_that_need_no_quotes():
    page = (settings.BASE_DIR / "docs" / "operator" / "configuration.md").read_text()
    characters = "letters, digits and `_.,:/@%+=-`"

    assert characters in page
    assert characters.replace("`", "") in SETTINGS_FILE
    for example in re.findall(r"`(EMAIL_FROM=.*?)`", page):
        assert LINE.fullmatch(example), example


@pytest.fixture
def wrapper(tmp_path: Path) -> Path:
    """`deploy/verification`, with the paths of a machine below `tmp_path`."""
    # The tool that changes the user, who does not exist here
    setpriv = tmp_path / "setpriv"
    setpriv.write_text('#!/bin/sh\nshift 5\nexec "$@"\n')
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\nenv\necho "ARGUMENTS=$*"\n')
    text = (DEPLOY / "verification").read_text()
    for old, new in (
        ("/etc/verification/address.env", DEPLOY / "address.env"),
        ("/etc/verification/verification.env", tmp_path / "env"),
        ("/opt/verification/bin/verification", program),
        ("exec setpriv", f"exec {setpriv}"),
    ):
        text = text.replace(old, str(new))
    (command := tmp_path / "verification").write_text(text)
    for file in (setpriv, program, command):
        file.chmod(0o755)
    (tmp_path / "env").write_text(
        SETTINGS_FILE.replace("/var/lib/verification", str(tmp_path))
    )
    return command


def variables_of(wrapper: Path, **caller: str) -> dict[str, str]:
    done = run(wrapper, "check", "--deploy", **caller)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_command_of_an_installation_reads_its_settings(wrapper: Path):
    found = variables_of(wrapper, HOME="/root")

    assert found["ARGUMENTS"] == "check --deploy"
    assert found["HOME"] == os.path.expanduser("~verification")
    assert found["OPERATOR_NAME"] == "Acacia Verification Ltd"
    assert found["SIGNING_KEY_FILE"] == "/etc/verification/secrets/signing_key"


def test_variables_of_the_caller_win_over_the_settings(wrapper: Path):
    name = 'Ann\'s "$HOME" `id`'
    found = variables_of(
        wrapper,
        OPERATOR_NAME=name,
        TRUSTED_PROXIES="",
        EMAIL_URL="smtp://mail.test",
        DATABASE_URL_FILE="/run/url",
    )

    assert found["OPERATOR_NAME"] == name
    assert found["TRUSTED_PROXIES"] == ""
    assert (found["EMAIL_URL"], found["DATABASE_URL_FILE"]) == (
        "smtp://mail.test",
        "/run/url",
    )
    # The other form of a secret goes, because both together are refused.
    assert not {"EMAIL_URL_FILE", "DATABASE_URL"} & found.keys()
    assert found["EMAIL_FROM"] == "Acacia Verification <no-reply@example.com>"
