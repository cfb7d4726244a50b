"""Which executors run templates and their jobs may use, and who may choose them."""

from collections.abc import Collection
from typing import Annotated

from pydantic import WithJsonSchema

from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.writes.base import WriteRequest
from jobauto_prefect.jobs.claims.approval import (
    approve_template,
    unapproved_in_template,
    unapproved_priority,
)
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.runtime.executors.registry import BUILT_IN, executor_faults

ExecutorName = Annotated[str, WithJsonSchema({"type": "string", "enum": sorted(BUILT_IN)})]


def require_usable_executors(template: RunTemplate) -> None:
    """Require that each executor of a run template exists and can run its jobs.

    Raises:
        InvalidInput: with every error.
    """
    faults = list(_faults(template.executor, template, "/executor"))
    for place, name in enumerate(template.executors):
        faults += _faults(name, template, f"/executors/{place}")
    if faults:
        raise InvalidInput(list(dict.fromkeys(faults)))


def require_allowed_executor(name: str, template: RunTemplate) -> None:
    """Require an executor that jobs may use: the run template's, or one of its `executors`.

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
            f"jobs of the run template {template.name} may use {names}, not {name}; "
            "a user who may change the template can add it to its executors"
        )
    if faults:
        raise InvalidInput(faults)


def _faults(name: str, template: RunTemplate, pointer: str) -> list[Fault]:
    image = template.app.document.get("ociimage")
    return executor_faults(name, template.executor_settings, image, pointer)


def settle_template_approval(
    write: WriteRequest, template: RunTemplate, before: Collection[str]
) -> None:
    """Approve what an administrator wrote; refuse others what newly needs an administrator.

    `before` is what needed one before the write.

    Raises:
        Forbidden: something newly needs one.
    """
    if write.who.rights.system_wide:
        approve_template(template)
    else:
        forbid_more(unapproved_when_written(write, template), before)


def unapproved_when_written(write: WriteRequest, template: RunTemplate) -> list[str]:
    """Return what in a run template needs an administrator's approval, and why."""
    return [
        *unapproved_in_template(template, write.settings),
        *unapproved_priority(template, write.settings),
    ]


def forbid_more(lacking: Collection[str], before: Collection[str]) -> None:
    """Require that nothing newly needs an administrator.

    Raises:
        Forbidden: something does.
    """
    more = [reason for reason in lacking if reason not in before]
    if more:
        raise Forbidden("; ".join(more))
