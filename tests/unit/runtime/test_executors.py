"""Which executors there are, and what a run template may say of them."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from jobauto_prefect.definitions.validation.record_files import check_record, record_schema
from jobauto_prefect.runtime.executors.registry import (
    BUILT_IN,
    executor_faults,
    executor_kinds,
    settings_schema,
)
from jobauto_prefect.runtime.executors.settings import ContainerSettings, settings_for

IMAGE = "docker.io/acme/probe"

ADDED = """
from jobauto_prefect.runtime.executors.settings import ExecutorSettings
from jobauto_prefect.runtime.executors.registry import ExecutorKind

class QueueSettings(ExecutorSettings):
    partition: str = "short"

SLURM = ExecutorKind(lambda context: None, QueueSettings)
NONSENSE = 1
"""

ENTRY_POINTS = """
[jobauto.executors]
Slurm = added_executors:SLURM
Nonsense = added_executors:NONSENSE
Broken = no_such_module:KIND
Native = added_executors:SLURM
"""

Pointers = Callable[..., dict[str, str]]


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that adds executors is installed."""
    (tmp_path / "added_executors.py").write_text(ADDED)
    distribution = tmp_path / "added_executors-1.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Name: added-executors\nVersion: 1\n")
    (distribution / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    executor_kinds.cache_clear()
    yield
    sys.modules.pop("added_executors", None)
    executor_kinds.cache_clear()


def errors(name: str, settings: dict[str, Any], image: str | None = IMAGE) -> dict[str, str]:
    return {one.pointer: one.message for one in executor_faults(name, settings, image)}


def test_ours_are_there() -> None:
    assert list(executor_kinds()) == ["Native", "Docker", "Podman", "Kubernetes"]
    examples = record_schema("runtemplate")["properties"]["executor"]["examples"]
    assert examples == list(BUILT_IN)


def test_a_package_can_add_one_but_not_replace_ours(
    added: None, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = executor_kinds()
    assert set(kinds) == {*BUILT_IN, "Slurm"}
    assert kinds["Native"] is BUILT_IN["Native"]
    assert "Broken can't be loaded" in caplog.text
    assert "Nonsense is not an ExecutorKind" in caplog.text
    assert errors("Slurm", {"partition": "long"}, None) == {}
    assert "partition" in errors("Native", {"partitions": 1})["/executor_settings/partitions"]


def test_an_unknown_one_is_refused_with_the_list() -> None:
    assert errors("native", {}) == {
        "/executor": "there is no executor native; use Docker, Kubernetes, Native, Podman"
    }


@pytest.mark.parametrize("name", ["Docker", "Podman", "Kubernetes"])
@pytest.mark.parametrize("image", [None, ""])
def test_what_runs_images_needs_one(name: str, image: str | None) -> None:
    message = f"executor {name} needs an image: add ociimage to the application's definition"
    assert errors(name, {}, image) == {"/executor": message}
    assert errors(name, {}) == errors("Native", {}, None) == {}


def test_the_name_alone_has_to_be_changed() -> None:
    settings = {"memory": "64m", "network": "none", "service_account": "jobs"}
    assert [errors(name, settings) for name in BUILT_IN] == [{}] * len(BUILT_IN)
    assert settings_for(ContainerSettings, settings).network == "none"


def test_all_that_is_wrong_is_said_at_once() -> None:
    settings = {
        "memory": "much",
        "cpu": 0,
        "user": "root",
        "network": "host",
        "pull": "daily",
        "ulimits": {"nofile": "many"},
        "runtime": "/bin/sh",
        "read_only": "perhaps",
        "privileged": True,
    }
    found = errors("Slurm", settings, None)
    names = {f"/executor_settings/{name}" for name in settings if name != "ulimits"}
    assert set(found) == names | {"/executor", "/executor_settings/ulimits/nofile"}


@pytest.mark.parametrize(
    "settings",
    [{"init": "true"}, {"init": 1}, {"read_only": 0.0}, {"cpu": "0.5"}, {"cpu": True}],
    ids=str,
)
def test_settings_have_the_types_of_the_published_schema(settings: dict[str, Any]) -> None:
    (name,) = settings
    assert set(errors("Docker", settings)) == {f"/executor_settings/{name}"}
    assert not Draft202012Validator(settings_schema()).is_valid(settings)


@pytest.mark.parametrize("settings", [{"cpu": 2}, {"cpu": 0.5}], ids=str)
def test_a_whole_number_is_a_number(settings: dict[str, Any]) -> None:
    assert errors("Docker", settings) == {}
    assert Draft202012Validator(settings_schema()).is_valid(settings)


@pytest.mark.parametrize("network", ["container:other", "ns:/proc/1/ns/net", "../x"])
def test_networks_of_others_are_refused(network: str) -> None:
    assert set(errors("Docker", {"network": network})) == {"/executor_settings/network"}


def test_the_published_settings_are_those_there_are() -> None:
    schema = settings_schema()
    assert schema["additionalProperties"] is False
    known = {name for kind in BUILT_IN.values() for name in kind.settings.model_fields}
    assert set(schema["properties"]) == known
    assert all(one["description"] for one in schema["properties"].values())
    in_files = record_schema("runtemplate")["properties"]["executor_settings"]
    assert in_files["properties"] == schema["properties"]


@pytest.mark.parametrize(
    ("setting", "key"),
    [("ulimits", "NOFILE"), ("labels", "acme/"), ("node_selector", "-zone")],
)
def test_the_published_settings_refuse_the_keys_that_an_executor_refuses(
    setting: str, key: str
) -> None:
    value = "1024"
    assert errors("Docker", {setting: {key: value}})
    record = {"kind": "runtemplate", "name": "x", "app": "a", "company": "c"}
    found = check_record("runtemplate", {**record, "executor_settings": {setting: {key: value}}})
    assert [(one.pointer, one.rule) for one in found] == [
        (f"/executor_settings/{setting}", "pattern")
    ]
