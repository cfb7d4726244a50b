"""The values of a run template's jobs, with the source of each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobauto_prefect.console_addresses import page_of
from jobauto_prefect.definitions import (
    Definition,
    Variable,
    VariableType,
    default_value,
    parse,
    to_text,
)
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.facade.console.records.cells import Record
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.ledger.queries.run_templates import template_paths


@dataclass(frozen=True, slots=True)
class ValueSource:
    """The values of one source, with masked secrets. `label` is its name for people.

    `is_own`: the source is the run template itself, whose undeclared values count, too.
    """

    label: Text
    values: Mapping[str, str]
    href: str = ""
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value before its macros are expanded; `source` is None if no source has one."""

    key: str
    variable: Variable | None
    text: str
    source: ValueSource | None

    @property
    def is_masked(self) -> bool:
        return self.text == MASK


def default_source(definition: Definition) -> ValueSource:
    """Return the defaults of the definition."""
    values = {
        key: _default_text(variable)
        for key, variable in definition.environment.items()
        if variable.default is not None
    }
    return ValueSource(Text("application default"), values)


def _default_text(variable: Variable) -> str:
    if variable.secret:
        return MASK if to_text(variable.default) else ""
    if variable.type is VariableType.BOOL:
        return to_text(default_value(variable))
    return to_text(variable.default)


def credential_source(credential: Mapping[str, Any], fields: Sequence[Mapping[str, Any]],
                      href: str) -> ValueSource:  # fmt: skip
    """Return a credential's values, and its type's defaults for those it does not set."""
    given = credential["values"]
    keywords = [field["keyword"] for field in fields]
    values = {
        field["keyword"]: to_text(field["default_value"])
        for field in fields
        if field.get("default_value") not in (None, "")
    }
    values |= {keyword: given[keyword] for keyword in keywords if keyword in given}
    return ValueSource(Text("credential {name}", name=credential["name"]), values, href)


def resolve_values(
    definition: Definition, sources: Iterable[ValueSource]
) -> Iterator[SourcedValue]:
    """Yield the value of each variable from the last source that has one, then undeclared values.

    Undeclared values of a company are left out: it has values for many applications.
    """
    ordered = list(sources)
    own = [source for source in ordered if source.is_own]
    keys = [*definition.environment, *(key for source in own for key in source.values)]
    for key in dict.fromkeys(keys):
        source = next((each for each in reversed(ordered) if key in each.values), None)
        text = source.values[key] if source else ""
        yield SourcedValue(key, definition.environment.get(key), text, source)


@dataclass(frozen=True, slots=True)
class TemplateRecords:
    """A run template with its application, its company and its credentials, in order."""

    template: Record
    app: Record
    company: Record
    credentials: Sequence[Record]
    types: Mapping[int, Record]

    @property
    def definition(self) -> Definition:
        return parse(self.app)

    @property
    def sources(self) -> list[ValueSource]:
        """The sources of values; later ones override earlier ones."""
        return [
            default_source(self.definition),
            ValueSource(
                Text("company {name}", name=self.company["name"]),
                self.company["env"],
                page_of("company", self.company["id"]),
            ),
            *(
                credential_source(each, kind["fields"], page_of("credential", each["id"]))
                for each, kind in self.typed_credentials
            ),
            ValueSource(Text("this run template"), self.template["env"], is_own=True),
        ]

    @property
    def values(self) -> list[SourcedValue]:
        """The values of jobs that set none themselves."""
        return list(resolve_values(self.definition, self.sources))

    @property
    def typed_credentials(self) -> list[tuple[Record, Record]]:
        """The credentials, each with its type."""
        return [(each, self.types[each["credential_type_id"]]) for each in self.credentials]


async def read_template(visit: Visit, template_id: int) -> TemplateRecords:
    """Read a run template and the records it refers to.

    Raises:
        ContractError: it does not exist, or the visitor may not see it.
    """
    template = await visit.get(f"/runtemplate/{template_id}")
    of_company = {"company_id": template["company_id"]}
    records = await read_new_template(visit, template["company_id"], template["app_id"])
    records = replace(records, template=template)
    if not template["credentials"]:
        return records
    listed = await visit.get("/credentials", of_company)
    held = [listed[str(number)] for number in template["credentials"] if str(number) in listed]
    kinds = await visit.get("/credential_types")
    types = {record["id"]: record for record in kinds.values()}
    return replace(records, credentials=held, types=types)


async def read_new_template(visit: Visit, company_id: int, app_id: int) -> TemplateRecords:
    """Read the records that a new run template refers to.

    Raises:
        ContractError: company or application do not exist, or the visitor may not see them.
    """
    app = await visit.get(f"/app/{app_id}")
    company = await visit.get(f"/company/{company_id}")
    return TemplateRecords({"env": {}}, app, company, (), {})


async def read_template_paths(visit: Visit) -> dict[str, str]:
    """Return the run templates that the visitor may see as `company/name`, by id."""
    companies = visit.who.rights.companies_with("jobs.read")
    paths = await visit.query(lambda session: template_paths(session, companies))
    return {str(number): path for number, path in paths.items()}
