"""nginx and Caddy in front of the running service, with the files in `deploy/`.

    with Nginx(service.port) as proxy:
        requests.get(f"{proxy.url}/healthz")

They listen on free ports of the loopback, without TLS.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import pytest
from django.conf import settings

from tests.world.service import free_port
from verification.jobs.processes import parent_death_hook

DEPLOY = settings.BASE_DIR / "deploy"
INSTALLED = "/usr/local/share/verification"
START_SECONDS = STOP_SECONDS = 20


def required(program: str) -> str:
    """Return the path of a program, or skip the test where it is missing."""
    path = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if path is None:
        pytest.skip(f"{program} is not installed")
    return path


class WebProxy:
    def __init__(self, upstream: int, second: int | None = None) -> None:
        # nginx' workers are another user when root runs the tests, and no other user
        # can open pytest's folder.
        self._place = TemporaryDirectory(prefix="web-proxy-")
        self.folder = Path(self._place.name)
        self.folder.chmod(0o755)
        self._log = ""
        # The ports of the web servers
        self.upstreams = [upstream] if second is None else [upstream, second]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        shutil.copy(DEPLOY / "away.html", self.folder)

    def command(self) -> list[str]:
        """Write the configuration; return the command that runs the proxy."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            command = self.command()
        except BaseException:  # a skip, where the program is missing
            self._place.cleanup()
            raise
        with (self.folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "HOME": str(self.folder)} | self.variables(),
                stdout=log,
                stderr=log,
                preexec_fn=parent_death_hook(),
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                assert time.monotonic() < deadline, self.log()
                assert self._process.poll() is None, self.log()
                time.sleep(0.05)
            else:
                return self

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.wait(STOP_SECONDS)
        self._log = self.log()
        self._place.cleanup()

    def variables(self) -> dict[str, str]:
        return {}

    def log(self) -> str:
        file = self.folder / "log"
        return file.read_text() if file.exists() else self._log


class Nginx(WebProxy):
    def command(self) -> list[str]:
        site = nginx_site(self.folder, f"127.0.0.1:{self.port}")
        first, last = self.upstreams[0], self.upstreams[-1]
        site = site.replace("127.0.0.1:8000", f"127.0.0.1:{first}")
        site = site.replace("127.0.0.1:8001", f"127.0.0.1:{last}")
        # Only here is the name of the site an address.
        site = re.sub(r"server_name reports\S+;", "server_name 127.0.0.1;", site)
        return nginx_command(self.folder, site)


class Caddy(WebProxy):
    def command(self) -> list[str]:
        text = (DEPLOY / "Caddyfile").read_text().replace(INSTALLED, str(self.folder))
        # On a busy machine the web server needs longer to restart.
        text = text.replace("lb_try_duration 15s", "lb_try_duration 60s")
        options = f"{{\n\tadmin off\n\thttp_port {free_port()}\n"
        (self.folder / "Caddyfile").write_text(text.replace("{\n", options, 1))
        return [required("caddy"), "run", "--config", str(self.folder / "Caddyfile")]

    def variables(self) -> dict[str, str]:
        servers = " ".join(f"127.0.0.1:{port}" for port in self.upstreams)
        return {"BASE_URL": self.url, "WEB_SERVERS": servers}


def nginx_site(folder: Path, address: str) -> str:
    """Return our site on this address, with TLS on a socket in the folder."""
    certificate, key = folder / "certificate", folder / "key"
    make = [required("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        [*make, *files, "-subj", "/CN=reports.example.com"],
        capture_output=True,
        check=True,
    )
    site = (DEPLOY / "nginx.conf").read_text().replace(INSTALLED, str(folder))
    for old, new in (("fullchain.pem", certificate), ("privkey.pem", key)):
        site = re.sub(rf"/etc/letsencrypt/\S+/{old}", str(new), site)
    site = site.replace("/var/log/nginx/error.log", "stderr")
    site = re.sub(r"listen \[::\]:.*", "", site)
    site = re.sub(r"listen 443\b", f"listen unix:{folder}/443", site)
    return re.sub(r"listen 80\b", f"listen {address}", site)


def nginx_command(folder: Path, site: str) -> list[str]:
    """Write nginx' configuration with this site; return the command that runs it."""
    (folder / "site").write_text(site)
    places = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid; error_log stderr; daemon off; events {{}}\n"
        f"http {{ access_log off; {places} include {folder}/site; }}\n"
    )
    return [required("nginx"), "-c", str(folder / "nginx.conf")]
