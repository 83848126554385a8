"""Files for deployment are well formed, agree with each other, and name commands and addresses that there are."""

from __future__ import annotations

import configparser
import dataclasses
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

import holdfast.web
from holdfast.cli.app import app
from holdfast.model import SECOND, microseconds
from holdfast.settings import Settings, resolve
from tests.docs.pages import DOCS, ROOT

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text("utf-8"))
DOCKERFILE = (DEPLOY / "docker" / "Dockerfile").read_text("utf-8")
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text("utf-8"))
    return parser


def instructions() -> list[tuple[str, str]]:
    """What the Dockerfile says, a line each, as its builder reads it."""
    lines = [line for line in DOCKERFILE.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    return [(word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines())]


@functools.cache
def objects() -> list[dict[str, Any]]:
    return [one for path in KUBERNETES for one in yaml.safe_load_all(path.read_text("utf-8"))]


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in objects() if one["kind"] == kind}


def pods() -> dict[str, dict[str, Any]]:
    """The pods' specifications by the name of whatever makes them."""
    makers = {**named("Deployment"), **named("Job")}
    return {name: one["spec"]["template"]["spec"] for name, one in makers.items()}


def container(pod: dict[str, Any]) -> dict[str, Any]:
    [only] = pod["containers"]
    return only


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command line in the files: where it stands, and its words."""
    for path in UNITS:
        for key, line in unit(path)["Service"].items():
            if key.startswith("Exec"):
                yield f"{path.name} {key}", shlex.split(line)
    for name, service in COMPOSE["services"].items():
        if "command" in service:
            yield f"compose {name}", service["command"]
    yield "Dockerfile", json.loads(dict(instructions())["CMD"])
    for name, pod in pods().items():
        yield f"kubernetes {name}", container(pod)["command"]


def parsed(words: list[str]) -> dict[str, Any]:
    """What the command's own parser makes of a line; it raises what a shell would show."""
    group: Any = typer.main.get_command(app)
    command = group.commands[words[1]]
    return dict(command.make_context(words[1], list(words[2:])).params)


COMMANDS = dict(commands())


@pytest.mark.parametrize("place", COMMANDS)
def test_every_command_on_a_page_exists(place):
    words = COMMANDS[place]
    assert Path(words[0]).name == "holdfast"
    parsed(words)


def test_a_command_that_does_not_exist_is_found():
    with pytest.raises(KeyError):
        parsed(["holdfast", "wroker"])
    with pytest.raises(Exception, match="No such option"):
        parsed(["holdfast", "worker", "--proceses", "4"])


def test_pages_name_the_files_that_they_explain():
    page = (DOCS / "deploy.md").read_text("utf-8")
    files = [
        path.relative_to(DEPLOY) for path in DEPLOY.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert [str(path) for path in files if f"../deploy/{path}" not in page] == []


def grace_of(words: list[str]) -> int:
    return microseconds(parsed(words)["grace"] or "20s")


def test_systemd_waits_longer_than_a_worker_does():
    service = unit(DEPLOY / "systemd" / "holdfast-worker.service")["Service"]
    assert int(service["TimeoutStopSec"]) * SECOND > grace_of(shlex.split(service["ExecStart"])) + 10 * SECOND


def test_compose_waits_longer_than_a_worker_does():
    worker = COMPOSE["services"]["worker"]
    assert microseconds(worker["stop_grace_period"]) > grace_of(worker["command"]) + 10 * SECOND


def test_kubernetes_waits_longer_than_a_worker_does():
    pod = pods()["holdfast-worker"]
    assert pod["terminationGracePeriodSeconds"] * SECOND > grace_of(container(pod)["command"]) + 10 * SECOND


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_has_its_three_parts(path):
    assert unit(path).sections() == ["Unit", "Service", "Install"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_accepts_every_unit(path, tmp_path):
    """Where there is no systemd its own words are all there is to check: the other tests do."""
    checker = shutil.which("systemd-analyze")
    if checker is None:
        return
    # The program has to be there: this one stands for it.
    text = re.sub(r"/srv/shop/venv/bin/\w+", sys.executable, path.read_text("utf-8"))
    (tmp_path / path.name).write_text(text, "utf-8")
    ran = subprocess.run(
        [checker, "verify", str(tmp_path / path.name)], capture_output=True, text=True, check=False, timeout=60
    )
    about_it = [line for line in ran.stderr.splitlines() if path.name in line]
    assert about_it == []


KNOWN = {"FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "STOPSIGNAL", "CMD"}


def test_the_dockerfile_holds_instructions_only():
    assert {word for word, _ in instructions()} <= KNOWN


def test_the_dockerfile_begins_with_an_image():
    assert instructions()[0][0] == "FROM"


def test_files_that_the_dockerfile_copies_exist():
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and not rest.startswith("--from=")]
    missing = [name for names in copied for name in names if not (DEPLOY / "docker" / name).exists()]
    assert missing == []


def test_stages_that_are_copied_from_were_named():
    stages = {rest.split()[-1] for word, rest in instructions() if word == "FROM" and " AS " in rest}
    sources = {rest.split()[0].removeprefix("--from=") for word, rest in instructions() if "--from=" in rest}
    assert sources <= stages


def test_the_image_does_not_run_as_root():
    said = [rest for word, rest in instructions() if word == "USER"]
    assert said[-1:] == ["10001"]


def test_the_image_gets_the_signal_itself():
    """A command in the form of a shell's line has a shell in front of it, which keeps SIGTERM to itself."""
    assert dict(instructions())["CMD"].startswith("[")


def test_the_image_installs_existing_extras():
    required = (DEPLOY / "docker" / "requirements.txt").read_text("utf-8")
    [extras] = re.findall(r"^holdfast\[([\w,]+)\]", required, re.MULTILINE)
    declared = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert set(extras.split(",")) <= set(declared)


def test_a_worker_finds_the_workflows_of_the_image(tmp_path):
    words = ["-m", "holdfast", "worker", "--url", f"sqlite:///{tmp_path}/runs.db"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        [sys.executable, *words], cwd=DEPLOY / "docker", env=environment, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        said = worker.stdout.readline()
        worker.terminate()
    assert "ready for checkout" in said


SERVICE = {
    *("build", "image", "command", "environment", "depends_on", "volumes", "healthcheck", "restart"),
    *("stop_grace_period", "deploy", "ports"),
}


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_service_says_only_what_compose_knows(name):
    assert set(COMPOSE["services"][name]) <= SERVICE


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_service_waits_for_what_can_be_waited_for(name):
    services = COMPOSE["services"]
    for other, condition in services[name].get("depends_on", {}).items():
        match condition["condition"]:
            case "service_healthy":
                assert "healthcheck" in services[other]
            case "service_completed_successfully":
                assert services[other]["restart"] == "no"
            case unknown:
                pytest.fail(f"{unknown} is no condition")


def test_only_the_migration_service_migrates():
    said = {name: one["environment"].get("HOLDFAST_MIGRATE") for name, one in COMPOSE["services"].items()}
    assert said == {"postgres": None, "migrate": "true", "worker": "false", "web": "false"}


def test_volumes_that_are_used_are_declared():
    used = {one.partition(":")[0] for service in COMPOSE["services"].values() for one in service.get("volumes", [])}
    assert used == set(COMPOSE["volumes"])


def test_no_password_stands_in_the_files_of_docker():
    text = (DEPLOY / "docker" / "compose.yaml").read_text("utf-8")
    assert re.findall(r"PASSWORD: (?!\$\{)", text) == []


# What may stand in each kind of thing, as far as these files go. A misspelt word would be passed over by the server, or
# refused when it is too late.
POD = {"restartPolicy", "securityContext", "containers", "terminationGracePeriodSeconds", "volumes"}
CONTAINER = {
    *("name", "image", "command", "env", "envFrom", "ports", "livenessProbe", "readinessProbe", "lifecycle"),
    *("securityContext", "resources", "volumeMounts"),
}
SPECS = {
    ("apps/v1", "Deployment"): {"replicas", "selector", "strategy", "template"},
    ("batch/v1", "Job"): {"backoffLimit", "ttlSecondsAfterFinished", "template"},
    ("policy/v1", "PodDisruptionBudget"): {"maxUnavailable", "selector"},
    ("v1", "Service"): {"selector", "ports"},
}
OTHERS = {("v1", "Secret"), ("kustomize.config.k8s.io/v1beta1", "Kustomization")}


def labels(one: dict[str, Any]) -> dict[str, str]:
    return one["spec"]["template"]["metadata"]["labels"]


def test_objects_say_only_what_their_kind_knows():
    for one in objects():
        kind = one["apiVersion"], one["kind"]
        assert kind in OTHERS or set(one["spec"]) <= SPECS[kind], kind


@pytest.mark.parametrize("name", pods())
def test_a_pod_says_only_what_pods_know(name):
    pod = pods()[name]
    assert (set(pod) - POD, set(container(pod)) - CONTAINER) == (set(), set())


def test_a_deployment_selects_its_own_pods():
    assert [one["spec"]["selector"]["matchLabels"] for one in named("Deployment").values()] == [
        labels(one) for one in named("Deployment").values()
    ]


def test_a_service_leads_to_pods_and_to_a_port_that_they_have():
    [service] = named("Service").values()
    web = named("Deployment")["holdfast-web"]
    assert service["spec"]["selector"] == labels(web)
    ports = {port["name"] for port in container(pods()["holdfast-web"])["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_each_deployment_has_a_disruption_budget():
    budgets = {name: one["spec"]["selector"]["matchLabels"] for name, one in named("PodDisruptionBudget").items()}
    assert budgets == {name: labels(one) for name, one in named("Deployment").items()}


def test_probes_ask_for_existing_paths():
    web = container(pods()["holdfast-web"])
    asked = {web[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")}
    served = set(holdfast.web.api("sqlite:///:memory:").openapi()["paths"])
    assert asked == {"/healthz", "/readyz"}
    assert asked <= served


def test_what_listens_listens_where_it_is_looked_for():
    web = container(pods()["holdfast-web"])
    assert [port["containerPort"] for port in web["ports"]] == [
        int(parsed(web["command"])["listen"].rpartition(":")[2])
    ]


def test_metrics_are_served_where_they_are_looked_for():
    worker = container(pods()["holdfast-worker"])
    said = {one["name"]: one["value"] for one in worker["env"]}
    metrics = resolve(environ={"HOLDFAST_METRICS": said["HOLDFAST_METRICS"]}).metrics
    assert metrics is not None
    annotations = named("Deployment")["holdfast-worker"]["spec"]["template"]["metadata"]["annotations"]
    ports = [port["containerPort"] for port in worker["ports"]]
    assert ports == [metrics[1]] == [int(annotations["prometheus.io/port"])]


def test_every_variable_is_a_setting():
    """One with a typo would say nothing to anybody."""
    said = {*named("Secret")["holdfast"]["stringData"]}
    said |= {one["name"] for pod in pods().values() for one in container(pod).get("env", [])}
    said |= {name for service in COMPOSE["services"].values() for name in service["environment"]}
    known = {f"HOLDFAST_{field.name.upper()}" for field in dataclasses.fields(Settings)}
    assert {name for name in said if not name.startswith("POSTGRES_")} <= known


@pytest.mark.parametrize("name", pods())
def test_a_container_asks_for_resources_and_has_a_limit(name):
    resources = container(pods()[name])["resources"]
    assert (set(resources["requests"]), set(resources["limits"])) == ({"cpu", "memory"}, {"memory"})


@pytest.mark.parametrize("name", pods())
def test_a_container_has_somewhere_to_put_its_locks(name):
    """The root is read-only, and without a folder for temporary files there would be none for locks."""
    pod = pods()[name]
    assert container(pod)["securityContext"]["readOnlyRootFilesystem"]
    mounted = {one["mountPath"]: one["name"] for one in container(pod)["volumeMounts"]}
    assert mounted["/tmp"] in {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("name", pods())
def test_secrets_that_are_used_are_declared(name):
    used = {one["secretRef"]["name"] for one in container(pods()[name])["envFrom"]}
    assert used <= set(named("Secret"))


def test_every_file_is_applied():
    [kustomization] = [one for one in objects() if one["kind"] == "Kustomization"]
    assert {*kustomization["resources"], "kustomization.yaml"} == {path.name for path in KUBERNETES}


def test_every_image_is_given_its_name():
    [kustomization] = [one for one in objects() if one["kind"] == "Kustomization"]
    assert {container(pod)["image"] for pod in pods().values()} == {one["name"] for one in kustomization["images"]}
