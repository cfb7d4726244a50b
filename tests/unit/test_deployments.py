"""What `deployments/` holds names commands, settings and folders that there are."""

import configparser
import importlib
import json
import os
import re
import shutil
import subprocess
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
DEFAULT = re.compile(r"\$\{\w+:-(\w+)\}")
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


def needs(program: str) -> pytest.MarkDecorator:
    required = os.environ.get("JOBAUTO_TEST_REQUIRE_SERVICES") == "1"
    missing = shutil.which(program) is None and not required
    return pytest.mark.skipif(missing, reason=f"there is no {program}")


@needs("systemd-analyze")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_reaches_little_of_its_machine(path: Path) -> None:
    # What a worker may, its native jobs may (docs/security.md).
    most = 6.0 if path.stem.startswith("jobauto-worker") else 3.0
    argv = ["systemd-analyze", "security", "--offline=true", f"--threshold={most * 10:.0f}", path]
    found = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout.splitlines()[-1] + found.stderr


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
        named = [DEFAULT.sub(r"\1", volume) for volume in service.get("volumes", ())]
        assert {volume.partition(":")[0] for volume in named} <= set(file["volumes"])
        # One that starts again would leave those that share its network in the former one.
        assert "network_mode" not in service
    # The worker has neither the ledger nor its key.
    assert "JOBAUTO_DATABASE_URL" not in services["worker"]["environment"]
    assert "home" not in str(services["worker"]["volumes"])
    build_file = services["facade"]["build"]
    assert (FOLDER / build_file["context"] / build_file["dockerfile"]).is_file()


PORTS = {"facade": 0, "prefect": 1, "services": 2, "worker": 3}
"""Their management ports, from the first one on (docs/operation.md)."""


@pytest.mark.parametrize("part", PORTS)
def test_a_part_in_a_container_writes_to_its_volume_only_and_says_whether_it_is_well(
    part: str,
) -> None:
    service = compose()["services"][part]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    port = int(service["environment"]["JOBAUTO_MANAGEMENT_PORT"]) + PORTS[part]
    assert f"http://127.0.0.1:{port}/healthz" in service["healthcheck"]["test"][-1]


def test_the_image_is_not_run_by_root_and_a_worker_has_time_to_end_its_jobs() -> None:
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    base = lines.index("FROM ${PYTHON} AS base")
    assert "USER jobauto" in lines[base:]
    assert not any(line.startswith(("USER root", "STOPSIGNAL")) for line in lines)
    grace = Settings.model_fields["grace_seconds"].default
    assert compose()["services"]["worker"]["stop_grace_period"] == "1m"
    assert grace + Settings.model_fields["stop_seconds"].default < 60


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


@needs("groff")
def test_the_manual_page_is_formatted_without_a_warning() -> None:
    argv = ["groff", "-man", "-Tascii", "-ww", FOLDER / "man" / "jobauto.1"]
    formatted = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert formatted.stderr == ""
