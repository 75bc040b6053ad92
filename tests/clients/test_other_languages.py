"""Java and PHP clients that openapi-generator makes of the document order and read."""

import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from django.conf import settings

from tests.world.service import Service

PROGRAMS = Path(__file__).parent / "other_languages"
GENERATOR = Path(sys.executable).with_name("openapi-generator-cli")
# Short programs end sooner without the optimising compiler of the JVM.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# The generator and javac compute for 20 s, which take minutes on a busy machine.
pytestmark = pytest.mark.timeout(600)
PACKAGES = "invokerPackage=client,apiPackage=client.api,modelPackage=client.model"


@pytest.fixture(scope="module")
def key(service: Service) -> str:
    service.start()
    made = service.manage("create_workspace", "Acacia", "--owner=a@acacia.test")
    workspace = json.loads(made)["workspaceId"]
    made = service.manage("create_key", workspace, "--environment=sandbox")
    return str(json.loads(made)["key"])


def run(*command: object) -> str:
    done = subprocess.run(
        [*map(str, command)],
        env=os.environ | {"JAVA_TOOL_OPTIONS": JAVA},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def generate(language: str, folder: Path, *options: str) -> None:
    source = ("-i", settings.OPENAPI_FILE, "-o", folder)
    said = run(GENERATOR, "generate", "-g", language, *source, *options)
    assert "FILEPATH_COLLISION" not in said


def test_java_client_takes_unknown_members_and_values(
    service: Service, key: str, tmp_path: Path
) -> None:
    generate(
        "java", tmp_path, "--library=native", f"-p=openApiNullable=false,{PACKAGES}"
    )
    # It holds Jackson, which the client needs.
    jackson = files("openapi_generator_cli") / "openapi-generator.jar"
    sources = [*tmp_path.glob("src/main/**/*.java"), *PROGRAMS.glob("*.java")]
    run("javac", "-nowarn", "-proc:none", "-d", tmp_path, "-cp", jackson, *sources)

    order = settings.BASE_DIR.joinpath("docs/order.json").read_text()
    classes = f"{jackson}:{tmp_path}"
    said = run("java", "-cp", classes, "Smoke", service.url, key, order)

    assert re.search(
        r"instance: (RUNNING|PARTIAL|READY)\n.*instance: NEW", said, re.DOTALL
    )


def test_php_client_takes_unknown_members_and_values(
    service: Service, key: str, tmp_path: Path
) -> None:
    names = re.findall(
        r"^    (Any\w+):$", settings.OPENAPI_FILE.read_text(), re.MULTILINE
    )
    strings = ",".join(f"{name}=string" for name in names)
    generate("php", tmp_path, "-p=invokerPackage=Reports", f"--type-mappings={strings}")

    program = PROGRAMS / "smoke.php"
    said = run("php", "-d", "error_reporting=8191", program, tmp_path, service.url, key)

    assert re.fullmatch(r"(RUNNING|PARTIAL|READY)\nNEW_STATUS\n", said)
