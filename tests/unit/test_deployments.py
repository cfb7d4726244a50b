"""What `deployments/` holds names commands, settings and folders that there are."""

import configparser
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from jobauto_prefect.cli.app import app
from jobauto_prefect.settings import Settings
from tests.support.paths import ROOT

FOLDER = ROOT / "deployments"
UNITS = sorted((FOLDER / "systemd").glob("*.service"))
POOLS = sorted((FOLDER / "work-pools").glob("*.json"))
PLACEHOLDER = re.compile(r"\{\{ *([a-z_]+) *\}\}")
OURS = re.compile(r"JOBAUTO_[A-Z_]+")
NO_FIELDS = {"JOBAUTO_CONFIG_DIR"}


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    return found


def commands() -> Iterator[list[str]]:
    for service in compose()["services"].values():
        if service.get("command", [""])[0] == "jobauto":
            yield service["command"][1:]
    for path in UNITS:
        unit = unit_of(path)
        for name in ("ExecStartPre", "ExecStart"):
            if line := unit["Service"].get(name):
                yield line.split()[1:]


def unit_of(path: Path) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(path)
    return unit


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_command_is_one(words: list[str]) -> None:
    command: Any = get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    options = {option for one in command.params for option in one.opts}
    assert {word for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_starts_again_however_often_it_failed(path: Path) -> None:
    unit = unit_of(path)
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"  # five quick failures would be the last
    assert (unit["Service"]["Restart"], unit["Service"]["RestartSec"]) == ("on-failure", "2")


@pytest.mark.parametrize("path", [FOLDER / "compose.yaml", FOLDER / "Dockerfile", *UNITS, *POOLS])
def test_every_setting_is_one(path: Path) -> None:
    known = {f"JOBAUTO_{name.upper()}" for name in Settings.model_fields} | NO_FIELDS
    assert set(OURS.findall(path.read_text())) <= known


@pytest.mark.parametrize("path", POOLS, ids=lambda path: path.stem)
def test_work_pools_use_the_variables_they_have(path: Path) -> None:
    template = json.loads(path.read_text())
    used = set(PLACEHOLDER.findall(json.dumps(template["job_configuration"])))
    assert used <= set(template["variables"]["properties"])
    assert "token" not in json.dumps(template["job_configuration"]).lower()


def test_parts_of_the_compose_file_are_there() -> None:
    file = compose()
    services = file["services"]
    assert {"facade", "prefect", "services", "worker"} <= set(services)
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
        assert set(service.get("secrets", ())) <= set(file["secrets"])
        volumes = {volume.partition(":")[0] for volume in service.get("volumes", ())}
        assert volumes <= set(file["volumes"])
    # The worker has neither the ledger nor its key.
    assert "JOBAUTO_DATABASE_URL" not in services["worker"]["environment"]
    assert "home" not in str(services["worker"]["volumes"])
    build_file = services["facade"]["build"]
    assert (FOLDER / build_file["context"] / build_file["dockerfile"]).is_file()


def test_what_the_image_is_made_of_is_there() -> None:
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    kept = [line[1:] for line in ignored if line.startswith("!")]
    assert all((FOLDER.parent / name).exists() for name in kept)
    project = (FOLDER.parent / "pyproject.toml").read_text()
    for needed in re.findall(r'^"([^"]+)" = "jobauto_prefect/', project, re.MULTILINE):
        assert needed in kept


def test_what_prefect_deploy_deploys_is_a_flow_and_is_in_no_pool_of_jobauto() -> None:
    for deployment in yaml.safe_load((FOLDER / "prefect.yaml").read_text())["deployments"]:
        module, _, name = deployment["entrypoint"].rpartition(".")
        flow = getattr(importlib.import_module(module), name)
        assert set(deployment["parameters"]) == set(flow.parameters.properties)
        assert deployment["work_pool"]["name"] != Settings.model_fields["pool"].default
