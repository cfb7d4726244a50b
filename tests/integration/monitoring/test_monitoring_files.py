"""Alerts, dashboard and documentation speak of metrics there are, and of each other."""

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from jobauto_prefect.engine.worker.worker_monitor import watch_jobs, worker_monitor
from jobauto_prefect.facade.app import create_app
from jobauto_prefect.ledger import service_status
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.metrics import Scraped
from tests.support.paths import ROOT

FOLDER = ROOT / "deployments" / "monitoring"
ALERTS = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
RULES: list[dict[str, Any]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
OPERATION = (ROOT / "docs" / "operation.md").read_text()
PROMTOOL = shutil.which("promtool")


class _Opened:
    """As much of a worker as its metrics ask for."""

    class runner:  # noqa: N801
        jobs = frozenset({1})

    class fitness:  # noqa: N801
        hindrances = {"disk": "no room"}  # noqa: RUF012


@pytest.fixture
def exposition(ledger: Ledger, facade_settings: Settings) -> bytes:
    """What a facade with services and a worker tell, together."""
    with ledger.writing(SERVICE) as session:
        service_status.record_heartbeat(session)
    facade = create_app(facade_settings, ledger).state.service.monitor
    with facade.loops.loop("seal").round():
        pass
    worker = worker_monitor(facade_settings, lambda: True)
    watch_jobs(worker, _Opened, 4)  # type: ignore[arg-type]
    assert isinstance(facade.exposition(), bytes)
    own = [line for line in worker.exposition().splitlines() if b"jobauto_worker_" in line]
    return bytes(facade.exposition() + b"\n".join(own) + b"\n")


def _named(text: str) -> set[str]:
    return set(re.findall(r"\bjobauto_[a-z_]+\b", text))


def _known(exposition: bytes) -> set[str]:
    found = set()
    for family in Scraped(exposition.decode()).families.values():
        suffixes = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",)}
        found |= {family.name + suffix for suffix in suffixes.get(family.type, ("",))}
    return found


def test_the_files_name_metrics_there_are(exposition: bytes) -> None:
    known = _known(exposition)
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for text in (*(rule["expr"] for rule in RULES), *asked):
        assert _named(text) <= known, text


def test_the_documentation_names_the_metrics_there_are(exposition: bytes) -> None:
    section = OPERATION.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    histograms = {name.removesuffix("_bucket") for name in _known(exposition)}
    assert _named(section) - {"jobauto_prefect"} <= _known(exposition) | histograms
    families = Scraped(exposition.decode()).families.values()
    ours = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    assert {name for name in ours if name.startswith("jobauto_")} - _named(section) == {
        "jobauto_build_info"
    }


def test_each_alert_has_its_paragraph_and_each_paragraph_its_alert() -> None:
    section = OPERATION.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    described = [part.partition("\n\n") for part in section.split("\n### ")[1:]]
    assert [name for name, *_ in described] == [rule["alert"] for rule in RULES]
    assert min(len(text) for *_, text in described) > 80
    for rule in RULES:
        assert rule["annotations"]["runbook_url"] == f"docs/operation.md#{rule['alert'].lower()}"


@pytest.mark.skipif(PROMTOOL is None, reason="there is no promtool")
def test_promtool_takes_rules_configuration_and_metrics(exposition: bytes) -> None:
    for what, file in (("rules", "alerts.yaml"), ("config", "prometheus.yaml")):
        argv = ["promtool", "check", what, str(FOLDER / file)]
        ran = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr + ran.stdout
    ours = b"\n".join(line for line in exposition.splitlines() if b"jobauto_" in line) + b"\n"
    argv = ["promtool", "check", "metrics"]
    linted = subprocess.run(argv, input=ours, capture_output=True, check=False)
    assert linted.returncode == 0, linted.stderr + linted.stdout
