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
from jobauto_prefect.ledger.records import Company, CredentialType, EventRule, RunTemplate
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
    records = [_of_company(company) for company in all_companies(session)]
    records += [_of_type(type_) for type_ in all_credential_types(session)]
    templates = templates_with_context(session, None)
    records += [_of_template(template, extra) for template in templates]
    records += [_of_rule(rule, extra) for rule in all_rules(session)]
    return (record for record in records if record.names)


def _of_company(company: Company) -> IdleNames:
    names = {*company.env, *company.secrets}
    return IdleNames("company", company.slug, tuple(sorted(filter(unsafe_reason, names))))


def _of_type(type_: CredentialType) -> IdleNames:
    names = {field["keyword"] for field in type_.fields}
    return IdleNames("credential-type", type_.code, tuple(sorted(filter(unsafe_reason, names))))


def _of_template(template: RunTemplate, extra: Collection[str]) -> IdleNames:
    names = {*template.env, *template.secrets}
    names |= {name for block in template.blocks for name in block["env"]}
    title = f"{template.company.slug}/{template.name}"
    return IdleNames("template", title, _not_permitted(names, template, extra))


def _of_rule(rule: EventRule, extra: Collection[str]) -> IdleNames:
    names = json.loads(rule.env_mapping)
    return IdleNames("rule", str(rule.id), _not_permitted(names, rule.runtemplate, extra))


def _not_permitted(
    names: Iterable[str], template: RunTemplate, extra: Collection[str]
) -> tuple[str, ...]:
    permitted = EnvironmentNames.of(template.app.definition, extra)
    return tuple(sorted(name for name in names if not permitted.permits(name)))
