"""Records with values under names that no job gets, because a rule or a definition changed.

They stay until somebody saves their values.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from jobauto_prefect.definitions.environment_names import EnvironmentNames, unsafe_reason
from jobauto_prefect.ledger.queries.companies import all_companies
from jobauto_prefect.ledger.queries.credentials import all_credential_types
from jobauto_prefect.ledger.queries.events import all_rules
from jobauto_prefect.ledger.queries.run_templates import templates_with_context
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import ReadingSession


@dataclass(frozen=True, slots=True)
class IdleNames:
    """The names in one record that jobs do not get, in alphabetical order.

    `group` and `title` are what its commands call it.
    """

    group: str
    title: str
    names: tuple[str, ...]


def idle_names(session: ReadingSession, extra: Collection[str]) -> Iterator[IdleNames]:
    """Yield every record with such names; `extra` are names an administrator allows for all."""
    found: list[tuple[str, str, Iterable[str]]] = []
    for company in all_companies(session):
        unsafe = filter(unsafe_reason, {*company.env, *company.secrets})
        found.append(("company", company.slug, unsafe))
    for type_ in all_credential_types(session):
        unsafe = filter(unsafe_reason, {field["keyword"] for field in type_.fields})
        found.append(("credential-type", type_.code, unsafe))
    for template in templates_with_context(session, None):
        names = {*template.env, *template.secrets}
        names |= {name for block in template.blocks for name in block["env"]}
        title = f"{template.company.slug}/{template.name}"
        found.append(("template", title, _not_permitted(names, template, extra)))
    for rule in all_rules(session):
        idle = _not_permitted(json.loads(rule.env_mapping), rule.runtemplate, extra)
        found.append(("rule", str(rule.id), idle))
    records = (IdleNames(group, title, tuple(sorted(names))) for group, title, names in found)
    return (record for record in records if record.names)


def _not_permitted(
    names: Iterable[str], template: RunTemplate, extra: Collection[str]
) -> list[str]:
    permitted = EnvironmentNames.of(template.app.definition, extra)
    return [name for name in names if not permitted.permits(name)]
