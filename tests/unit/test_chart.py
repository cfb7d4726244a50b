"""The Helm chart of the service, and the work pool for Prefect's Kubernetes workers."""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import helm_python
import pytest
import yaml
from prefect.server.schemas.actions import validate_base_job_template
from typer.main import get_command

from jobauto_prefect.cli.app import app
from jobauto_prefect.settings import Settings
from tests.support.paths import ROOT

CHART = ROOT / "deployments" / "helm"
TEMPLATES = sorted((CHART / "templates").iterdir())
NEEDED = {
    "secrets": {"existing": "db-and-key"},
    "tls": {"existing": "certificate"},
    "worker": {"tokenSecret": "worker-token"},
}
EVERYTHING = {
    "image": {"pullSecrets": ["registry"]},
    "settings": {"JOBAUTO_TIMEZONE": "Europe/Prague"},
    "prefect": {"url": "https://prefect.example.org/"},
    "management": {"enabled": True},
    "redis": {"enabled": True},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "annotations": {"a": "b"},
        "hosts": [{"name": "jobs.example.org", "part": "facade"}],
        "tlsSecret": "public",
        "trustedProxies": "10.0.0.0/8",
    },
}


def written() -> str:
    return "\n".join(path.read_text() for path in TEMPLATES)


def leaves(values: Any, path: str = "") -> Iterator[str]:
    """The paths of what can be set; a map that is empty, or is handed on whole, is one."""
    if isinstance(values, dict) and values and not path.endswith(".resources"):
        for name, value in values.items():
            yield from leaves(value, f"{path}.{name}")
    else:
        yield path


def test_the_chart_is_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == project["version"]


def test_values_and_templates_name_the_same_things() -> None:
    values = set(leaves(yaml.safe_load((CHART / "values.yaml").read_text())))
    used = set(re.findall(r"\.Values((?:\.[A-Za-z]+)+)", written()))
    assert used == values


def test_every_action_that_begins_a_block_is_ended() -> None:
    for path in TEMPLATES:
        actions = re.findall(r"\{\{-?\s*(if|range|with|define|end)\b", path.read_text())
        assert actions.count("end") * 2 == len(actions), path.name


def test_what_the_parts_are_told_are_settings_there_are() -> None:
    names = set(re.findall(r"\bname: (JOBAUTO_[A-Z_]+)", written()))
    known = {f"JOBAUTO_{name.upper()}" for name in Settings.model_fields}
    assert names
    assert names - known == set()


def test_the_commands_of_the_parts_are_commands_of_ours() -> None:
    found = re.findall(r"command: \[jobauto, ([a-z, ]+)\]", written())
    listed = re.findall(r"- jobauto\n +- ([a-z]+)\n +- ([a-z]+)", written())
    for words in [*(line.split(", ") for line in found), *listed]:
        group: Any = get_command(app)
        for word in words:
            group = group.get_command(None, word)
            assert group is not None, words


@pytest.mark.parametrize("more", [{}, EVERYTHING], ids=["least", "everything"])
def test_helm_renders_it(more: dict[str, Any]) -> None:
    with helm_python.Chart.load(str(CHART)) as chart:
        rendered = chart.render(NEEDED | more, name="demo", namespace="jobs")
    texts = [text for name, text in rendered.items() if name.endswith(".yaml")]
    objects = [one for text in texts for one in yaml.safe_load_all(text) if one]
    named = {(one["kind"], one["metadata"]["name"]) for one in objects}
    assert {
        ("Deployment", "demo-facade"),
        ("Deployment", "demo-services"),
        ("Deployment", "demo-prefect"),
        ("StatefulSet", "demo-worker"),
        ("Role", "demo-worker"),
    } <= named
    assert (("Ingress", "demo") in named) is bool(more)
    servers = {
        one["metadata"]["name"]: (container["args"][1], one["spec"]["replicas"])
        for one in objects
        for container in _containers(one)
        if "prefect" in container.get("command", ())
    }
    single = {"demo-prefect": ("all", 1)}
    shared = {"demo-prefect": ("api", 2), "demo-prefect-services": ("services", 2)}
    assert servers == (shared if more else single)
    for one in objects:
        for container in _containers(one):
            mounts = {mount["name"] for mount in container["volumeMounts"]}
            volumes = {volume["name"] for volume in one["spec"]["template"]["spec"]["volumes"]}
            claims = one["spec"].get("volumeClaimTemplates", ())
            assert mounts <= volumes | {claim["metadata"]["name"] for claim in claims}
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            if container["command"][0] == "jobauto":
                told = {variable["name"]: variable.get("value") for variable in container["env"]}
                assert told["JOBAUTO_FACADE_URL"] == "https://demo-facade:8000"


def _containers(one: dict[str, Any]) -> list[dict[str, Any]]:
    if one["kind"] not in ("Deployment", "StatefulSet"):
        return []
    pod = one["spec"]["template"]["spec"]
    found: list[dict[str, Any]] = [*pod.get("initContainers", ()), *pod["containers"]]
    return found


def test_prefect_takes_the_work_pool_and_each_of_its_variables_is_used() -> None:
    template = json.loads((ROOT / "deployments" / "work-pools" / "kubernetes.json").read_text())
    assert validate_base_job_template(template) == template
    used = set(re.findall(r"\{\{ (\w+) \}\}", json.dumps(template["job_configuration"])))
    assert used == set(template["variables"]["properties"])
