"""Warnings about credentials: what jobs of a run template would be refused for, or not be given."""

from collections.abc import Collection, Iterable

from jobauto_prefect.definitions.environment_names import EnvironmentNames
from jobauto_prefect.errors import (
    Fault,
)
from jobauto_prefect.jobs.claims.credentials import granted_fields, unfilled, unmet
from jobauto_prefect.ledger.queries.credentials import codes_known
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import ReadingSession


def unknown_requirements(
    session: ReadingSession, requirements: Iterable[str], company_id: int | None
) -> list[Fault]:
    """Return a warning for each requirement that no credential type bears as its code.

    Looked at are the types of the company whose application it is, and the shared ones; None: it
    is shared itself.
    """
    named = list(requirements)
    existing = codes_known(session, named, company_id)
    return [
        Fault(
            f"/requirements/{place}",
            "unknown_requirement",
            f"there is no credential type {code}; nothing checks this requirement",
        )
        for place, code in enumerate(named)
        if code.lower() not in existing
    ]


def withheld_warnings(template: RunTemplate, extra: Collection[str]) -> list[Fault]:
    """Return a warning for each credential some of whose fields no job is given."""
    definition = template.app.definition
    permitted = EnvironmentNames.of(definition, extra)
    granted = granted_fields(template, definition.requirements)
    warned = []
    for assigned in template.assignments:
        if assigned.credential.credential_type.source:
            continue  # its fields tell how to read others
        names = [field["keyword"] for field in assigned.credential.credential_type.fields]
        withheld = [name for name in names if not permitted.permits(name, granted)]
        if withheld:
            message = (
                f"of {assigned.credential.name} jobs are not given {', '.join(withheld)}: the "
                "application neither declares them nor requires "
                f"{assigned.credential.credential_type.code}"
            )
            warned.append(Fault("/credentials", "undeclared", message))
    return warned


def requirement_warnings(session: ReadingSession, template: RunTemplate) -> list[Fault]:
    """Return warnings of what jobs of a run template would be refused for."""
    warned = [
        Fault(
            "/credentials",
            "unmet_requirement",
            f"the application requires a credential of type {code}; no job starts without it",
        )
        for code in unmet(session, template, template.app.definition)
    ]
    return warned + [
        Fault("/credentials", "required", f"{field} has no value; no job starts without it")
        for field in unfilled(template)
    ]
