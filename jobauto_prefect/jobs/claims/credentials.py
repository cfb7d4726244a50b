"""What credentials and blocks give to the jobs of a run template, and what is missing."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from jobauto_prefect.definitions import Definition, to_text
from jobauto_prefect.definitions.environment_names import EnvironmentNames
from jobauto_prefect.definitions.records.credentials import (
    field_defaults,
    is_secret,
    missing_fields,
)
from jobauto_prefect.errors import Fault, PrefectUnavailable
from jobauto_prefect.jobs.claims.preflight import Preflight, member_of
from jobauto_prefect.ledger.queries.credentials import codes_checked, codes_known
from jobauto_prefect.ledger.records import Credential, RunTemplate
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.runtime.launch.environment import Layer


def provided_layer(
    template: RunTemplate, preflight: Preflight, box: SecretBox, requirements: Collection[str]
) -> Layer:
    """Return what credentials and blocks give, in the order of assignment, blocks last.

    A later value replaces an earlier one. Credentials of the types that the application names in
    its `requirements` may give all their fields, even undeclared ones.

    Raises:
        KeyMissing: secret values were stored with another key.
        PrefectUnavailable: a block could not be read.
    """
    values, secrets = dict[str, str](), dict[str, str]()
    layers = [_layer_with(assigned.credential, preflight, box) for assigned in template.assignments]
    layers += [_of_block(assigned, preflight.blocks) for assigned in template.blocks]
    for layer in layers:
        for name in (*layer.values, *layer.secrets):
            values.pop(name, None)
            secrets.pop(name, None)
        values |= layer.values
        secrets |= layer.secrets
    return Layer(values, secrets, granted_fields(template, requirements))


def layer_of(credential: Credential, box: SecretBox) -> Layer:
    """Return the values of one credential, with its type's defaults for missing ones.

    Values of fields that the type no longer has are left out.
    """
    fields = credential.credential_type.fields
    given = {**field_defaults(fields), **credential.values, **box.open(credential.secrets)}
    secrecy = {field["keyword"]: is_secret(field) for field in fields if field["keyword"] in given}
    sealed = {name for name, secret in secrecy.items() if secret or name in credential.secrets}
    return Layer(
        {name: given[name] for name in secrecy if name not in sealed},
        {name: given[name] for name in sealed},
    )


def _layer_with(credential: Credential, preflight: Preflight, box: SecretBox) -> Layer:
    """Return a credential's own values, overridden by those it refers to, which are all secret."""
    own, named = layer_of(credential, box), preflight.values.get(credential.id, {})
    values = {name: value for name, value in own.values.items() if name not in named}
    return Layer(values, {**own.secrets, **named})


def _of_block(assigned: Mapping[str, Any], blocks: Mapping[str, Mapping[str, Any]]) -> Layer:
    """Return a block's values, all as secrets: only the block's author knows which of them are."""
    block = assigned["block"]
    if block not in blocks:
        raise PrefectUnavailable(f"the block {block} can't be read at the moment; try again")
    members = {name: member_of(blocks[block], path) for name, path in assigned["env"].items()}
    return Layer({}, {name: to_text(value) for name, value in members.items() if value is not None})


def unmet(session: ReadingSession, template: RunTemplate, definition: Definition) -> list[str]:
    """Return the required credential types that the template has no credential of."""
    credentials = [assigned.credential for assigned in template.assignments]
    codes = {credential.credential_type.code.lower() for credential in credentials}
    open_ = [code for code in definition.requirements if code.lower() not in codes]
    checked = codes_checked(session, open_, template.company.id) if open_ else ()
    return [code for code in open_ if code.lower() in checked]


def unfilled(template: RunTemplate) -> list[str]:
    """Return the required fields without a value, as `credential: KEYWORD`."""
    return [
        f"{assignment.credential.name}: {keyword}"
        for assignment in template.assignments
        for keyword in unfilled_of(assignment.credential)
    ]


def unfilled_of(credential: Credential) -> list[str]:
    """Return the required fields of one credential that have no value."""
    given = {*credential.values, *credential.secrets}
    return [field["keyword"] for field in missing_fields(credential.credential_type.fields, given)]


def granted_fields(template: RunTemplate, requirements: Iterable[str]) -> frozenset[str]:
    """Return the undeclared fields that jobs get: those of credentials of required types.

    Fields that only tell how to read other values are left out.
    """
    wanted = {code.lower() for code in requirements}
    types = [assigned.credential.credential_type for assigned in template.assignments]
    given = [type_ for type_ in types if type_.code.lower() in wanted and not type_.source]
    fields = [field for type_ in given for field in type_.fields]
    return frozenset(field["keyword"] for field in fields)


def limited_credentials(template: RunTemplate) -> list[Credential]:
    """Return the credentials of a run template that have a limit, by ascending id."""
    used = (assigned.credential for assigned in template.assignments)
    limited = {credential.id: credential for credential in used if credential.max_jobs is not None}
    return [limited[number] for number in sorted(limited)]


def unknown_requirements(
    session: ReadingSession, requirements: Iterable[str], company_id: int | None
) -> list[Fault]:
    """Return a warning for each requirement without a matching credential type.

    The types of the application's company and the shared ones count; None: the application is
    shared.
    """
    named = list(requirements)
    existing = codes_known(session, named, company_id)
    return [
        Fault(
            f"/requirements/{place}",
            "unknown_requirement",
            f"there is no credential type {code}, so nothing checks that jobs have one",
        )
        for place, code in enumerate(named)
        if code.lower() not in existing
    ]


def withheld_warnings(template: RunTemplate, extra: Collection[str]) -> list[Fault]:
    """Return a warning for each credential with fields that jobs do not get."""
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
                f"jobs do not get {', '.join(withheld)} of {assigned.credential.name}: the "
                "application neither declares them nor requires "
                f"{assigned.credential.credential_type.code}"
            )
            warned.append(Fault("/credentials", "undeclared", message))
    return warned


def requirement_warnings(session: ReadingSession, template: RunTemplate) -> list[Fault]:
    """Return warnings of why jobs of a run template would be refused."""
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
