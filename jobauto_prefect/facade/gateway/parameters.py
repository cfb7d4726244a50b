"""Parameters of runs and deployments: those the application declares, and no others."""

from collections.abc import Iterator, Mapping
from typing import Any

from jobauto_prefect.compiler.parameters import REFERENCES, parameter_name, parameters
from jobauto_prefect.definitions import Definition
from jobauto_prefect.definitions.environment_names import EnvironmentNames
from jobauto_prefect.definitions.pointers import child
from jobauto_prefect.errors import Fault, InvalidInput


def require_declared(body: Any, definition: Definition) -> None:
    """Refuse parameters that an application has not: no job would be given them.

    Raises:
        InvalidInput: with a fault for each.
    """
    known = {*parameters(definition).parameter_keys, REFERENCES}
    secret = {parameter_name(key) for key in definition.secret_keys}
    names = EnvironmentNames(known)
    faults = list[Fault]()
    for pointer, given in _parameters_in(body):
        others = [name for name in given if name not in known]
        faults += [_secret(name, pointer) for name in others if name in secret]
        faults += names.faults([name for name in others if name not in secret], pointer)
    if faults:
        raise InvalidInput(faults)


def _secret(name: str, pointer: str) -> Fault:
    message = f"{name} is a secret, and Prefect keeps none: give it with jobauto run --env"
    return Fault(child(pointer, name), "secret", message)


def _parameters_in(body: Any, pointer: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Those of a run, a deployment or a schedule, of each in a list, and of a body's schedules."""
    if isinstance(body, list):
        for place, item in enumerate(body):
            yield from _parameters_in(item, f"{pointer}/{place}")
    elif isinstance(body, dict):
        if isinstance(body.get("parameters"), dict):
            yield f"{pointer}/parameters", body["parameters"]
        yield from _parameters_in(body.get("schedules"), f"{pointer}/schedules")
