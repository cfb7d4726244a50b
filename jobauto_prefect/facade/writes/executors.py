"""Which executor a run template may have, and which its jobs may name."""

from typing import Annotated

from pydantic import WithJsonSchema

from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.runtime.executors.registry import BUILT_IN, executor_faults, isolates

ExecutorName = Annotated[str, WithJsonSchema({"type": "string", "enum": sorted(BUILT_IN)})]


def require_usable_executors(template: RunTemplate) -> None:
    """Require that each executor of a run template is there and can run its jobs.

    Raises:
        InvalidInput: with every error.
    """
    faults = list(_faults(template.executor, template, "/executor"))
    for place, name in enumerate(template.executors):
        faults += _faults(name, template, f"/executors/{place}")
    if faults:
        raise InvalidInput(list(dict.fromkeys(faults)))


def require_allowed_executor(name: str, template: RunTemplate) -> None:
    """Require an executor that a job may name: the run template's, or one of its `executors`.

    Raises:
        InvalidInput: there is no such executor.
        Forbidden: it is another.
    """
    faults = list(_faults(name, template, "/executor"))
    if any(fault.rule == "enum" for fault in faults):
        raise InvalidInput(faults)
    if name not in template.executor_names:
        names = ", ".join(template.executor_names)
        raise Forbidden(
            f"a job of the run template {template.name} may name {names}, not {name}; "
            "who may change the template can add it to its executors"
        )
    if faults:
        raise InvalidInput(faults)


def _faults(name: str, template: RunTemplate, pointer: str) -> list[Fault]:
    image = template.app.document.get("ociimage")
    return executor_faults(name, template.executor_settings, image, pointer)


def unisolated_executors(template: RunTemplate) -> frozenset[str]:
    """Return the template's executors that run an application outside of the image it has."""
    if not template.app.document.get("ociimage"):
        return frozenset()
    return frozenset(name for name in template.executor_names if not isolates(name))


def require_isolation(who: Identity, template: RunTemplate, before: frozenset[str]) -> None:
    """Require a system-wide role to choose an executor without isolation for what has an image.

    `before` are the executors of that kind that the run template had.

    Raises:
        Forbidden: there are more now.
    """
    chosen = unisolated_executors(template) - before
    if chosen and not who.rights.system_wide:
        raise Forbidden(
            f"{template.app.name} has an image, and {', '.join(sorted(chosen))} runs it without; "
            "name an executor that isolates it, or ask an administrator"
        )
