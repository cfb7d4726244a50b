"""What an application requires, and the credentials that meet it: by the codes of their types."""

from collections.abc import Iterable

from jobauto_prefect.definitions import Definition, parse
from jobauto_prefect.definitions.credentials import missing
from jobauto_prefect.errors import Fault
from jobauto_prefect.ledger.credentials import codes_known
from jobauto_prefect.ledger.records import Credential, RunTemplate
from jobauto_prefect.ledger.store import ReadingSession


def unmet(session: ReadingSession, template: RunTemplate, definition: Definition) -> list[str]:
    """The requirements there are credential types for, and of which the template has none."""
    has = {one.credential.credential_type.code.lower() for one in template.assignments}
    open_ = [one for one in definition.requirements if one.lower() not in has]
    known = codes_known(session, open_)
    return [one for one in open_ if one.lower() in known]


def unfilled(template: RunTemplate) -> list[str]:
    """The required fields without a value, as `credential: KEYWORD`."""
    return [
        f"{one.credential.name}: {keyword}"
        for one in template.assignments
        for keyword in unfilled_of(one.credential)
    ]


def unfilled_of(credential: Credential) -> list[str]:
    """The required fields of one credential that have no value."""
    given = {*credential.values, *credential.secrets}
    return [one["keyword"] for one in missing(credential.credential_type.fields, given)]


def unknown_requirements(session: ReadingSession, requirements: Iterable[str]) -> list[Fault]:
    """A warning for each requirement that no credential type bears as its code."""
    named = list(requirements)
    known = codes_known(session, named)
    return [
        Fault(
            f"/requirements/{place}",
            "unknown_requirement",
            f"there is no credential type {one}; nothing checks this requirement",
        )
        for place, one in enumerate(named)
        if one.lower() not in known
    ]


def requirement_warnings(session: ReadingSession, template: RunTemplate) -> list[Fault]:
    """What jobs of a run template would be refused for."""
    warned = [
        Fault(
            "/credentials",
            "unmet_requirement",
            f"the application requires a credential of type {one}; no job starts without it",
        )
        for one in unmet(session, template, parse(template.app.document))
    ]
    return warned + [
        Fault("/credentials", "required", f"{one} has no value; no job starts without it")
        for one in unfilled(template)
    ]
