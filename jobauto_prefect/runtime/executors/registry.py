"""All executors: ours, and those added by other packages.

A package adds one with an entry point of the group `jobauto.executors`, which has the executor's
name and refers to an `ExecutorKind`.
"""

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError

from jobauto_prefect.errors import Fault
from jobauto_prefect.runtime.executor import Executor, ExecutorContext
from jobauto_prefect.runtime.executors.native import NativeExecutor
from jobauto_prefect.runtime.executors.settings import (
    ContainerSettings,
    ExecutorSettings,
    KubernetesSettings,
    settings_for,
)
from jobauto_prefect.text_patterns import error_message

logger = logging.getLogger(__name__)

GROUP = "jobauto.executors"

NO_NETWORK = ("network", "none")
"""The value of an administrator's setting that only restricts: anybody may choose it."""


@dataclass(frozen=True, slots=True)
class ExecutorKind:
    """An executor that run templates can name.

    `open` creates it for a worker, and neither connects nor imports much, because most workers
    never use it. `settings` are the fields it accepts in a template's executor settings.
    `needs_image`: it only runs applications with an `ociimage`. `isolates`: its jobs see neither
    the worker's machine nor other jobs.
    """

    open: Callable[[ExecutorContext], Executor]
    settings: type[ExecutorSettings] = ExecutorSettings
    needs_image: bool = False
    isolates: bool = False


def _docker(context: ExecutorContext) -> Executor:
    from jobauto_prefect.runtime.executors.containers.executor import docker_executor

    return docker_executor(context)


def _podman(context: ExecutorContext) -> Executor:
    from jobauto_prefect.runtime.executors.containers.executor import podman_executor

    return podman_executor(context)


def _kubernetes(context: ExecutorContext) -> Executor:
    from jobauto_prefect.runtime.executors.kubernetes.executor import KubernetesExecutor

    return KubernetesExecutor(context)


BUILT_IN: Mapping[str, ExecutorKind] = {
    "Native": ExecutorKind(NativeExecutor),
    "Docker": ExecutorKind(_docker, ContainerSettings, needs_image=True, isolates=True),
    "Podman": ExecutorKind(_podman, ContainerSettings, needs_image=True, isolates=True),
    "Kubernetes": ExecutorKind(_kubernetes, KubernetesSettings, needs_image=True, isolates=True),
}


@functools.cache
def executor_kinds() -> Mapping[str, ExecutorKind]:
    """Return all executors by name; skip and log those that can't be loaded."""
    return {**_load_plugins(), **BUILT_IN}


def _load_plugins() -> dict[str, ExecutorKind]:
    kinds = {}
    for entry in entry_points(group=GROUP):
        try:
            kind = entry.load()
        except Exception:  # it is another package's code
            logger.warning(
                "executor %s can't be loaded (%s)", entry.name, entry.value, exc_info=True
            )
            continue
        if isinstance(kind, ExecutorKind):
            kinds[entry.name] = kind
        else:
            logger.warning("executor %s is not an ExecutorKind (%s)", entry.name, entry.value)
    return kinds


def open_executors(context: ExecutorContext) -> dict[str, Executor]:
    """Create every executor for one worker."""
    return {name: kind.open(context) for name, kind in executor_kinds().items()}


def isolates(name: str) -> bool:
    """Whether jobs of an executor see neither the worker's machine nor other jobs."""
    kind = executor_kinds().get(name)
    return kind is not None and kind.isolates


def reserved_settings(settings: Mapping[str, Any], executor: str | None = None) -> dict[str, Any]:
    """Return the settings that only administrators may choose; None: of any executor."""
    models = [kind.settings for name, kind in executor_kinds().items() if executor in (None, name)]
    reserved = {name for model in models for name in model.model_fields.keys() - model.anyones}
    return {
        name: value
        for name, value in settings.items()
        if name in reserved and value not in (None, [], {}) and (name, value) != NO_NETWORK
    }


def executor_faults(
    name: str, settings: Mapping[str, Any], image: str | None, pointer: str = "/executor"
) -> list[Fault]:
    """Return why a run template can't have this executor with these settings, if so.

    `image` is its application's `ociimage`, `pointer` is where the name is. Settings of several
    executors may be given, so that changing the name is enough: each takes its own.
    """
    kinds = executor_kinds()
    faults = setting_faults(settings) if settings else [*_faults_without_settings()]
    if name not in kinds:
        message = f"there is no executor {name}; use {', '.join(sorted(kinds))}"
        faults.insert(0, Fault(pointer, "enum", message))
    elif kinds[name].needs_image and not image:
        message = f"executor {name} needs an image: add ociimage to the application's definition"
        faults.insert(0, Fault(pointer, "image", message))
    return faults


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of the settings of our own executors."""
    properties: dict[str, Any] = {}
    for kind in BUILT_IN.values():
        properties |= kind.settings.model_json_schema().get("properties", {})
    return {
        "type": "object",
        "properties": {
            name: _published_form(content) for name, content in sorted(properties.items())
        },
        "additionalProperties": False,
    }


def _published_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Rewrite a pydantic schema in the form of the published ones."""
    plain = {name: value for name, value in schema.items() if name not in ("title", "anyOf")}
    if "anyOf" in schema:
        (filled,) = (option for option in schema["anyOf"] if option["type"] != "null")
        plain |= {**filled, "type": [filled["type"], "null"]}
        plain["description"] = schema["description"]
        del plain["default"]
    for pattern, of_values in plain.pop("patternProperties", {}).items():
        plain["propertyNames"] = {**plain["propertyNames"], "pattern": pattern}
        plain["additionalProperties"] = of_values
    return plain


@functools.cache
def _faults_without_settings() -> tuple[Fault, ...]:
    return tuple(setting_faults({}))


def setting_faults(settings: Mapping[str, Any]) -> list[Fault]:
    """Return the errors of executor settings, for any executor."""
    models = [kind.settings for kind in executor_kinds().values()]
    names = {name for model in models for name in model.model_fields}
    faults = {
        f"/executor_settings/{name}": Fault(
            f"/executor_settings/{name}",
            "additionalProperties",
            f"no executor has a setting {name}; use {', '.join(sorted(names))}",
        )
        for name in settings
        if name not in names
    }
    for model in models:
        try:
            settings_for(model, settings)
        except ValidationError as error:
            for item in error.errors():
                pointer = "/".join(["/executor_settings", *map(str, item["loc"])])
                faults[pointer] = Fault(pointer, str(item["type"]), error_message(item))
    return list(faults.values())
