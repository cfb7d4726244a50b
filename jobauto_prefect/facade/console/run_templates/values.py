"""The values a run template's jobs get, and where each comes from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.concurrency import run_in_threadpool

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
    """What one source says; secrets are masked. `label` is what people call it.

    `is_own`: it is the run template itself, whose values count even where nobody declares them.
    """

    label: Text
    values: Mapping[str, str]
    href: str = ""
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value before macros are expanded in it; `source` None: none has one."""

    key: str
    variable: Variable | None
    text: str
    source: ValueSource | None

    @property
    def is_masked(self) -> bool:
        """Whether nobody is shown the value."""
        return self.text == MASK


def default_source(definition: Definition) -> ValueSource:
    """Return what the definition says."""
    values = {
        key: _default_text(variable)
        for key, variable in definition.environment.items()
        if variable.default is not None
    }
    return ValueSource(Text("default of the application"), values)


def _default_text(variable: Variable) -> str:
    if variable.secret:
        return MASK if to_text(variable.default) else ""
    if variable.type is VariableType.BOOL:
        return to_text(default_value(variable))
    return to_text(variable.default)


def credential_source(credential: Mapping[str, Any], fields: Sequence[Mapping[str, Any]],
                      href: str) -> ValueSource:  # fmt: skip
    """Return what a credential says, and its type's defaults for what it says nothing of."""
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
    """Yield the value of each variable from the last source that has one, then the undeclared.

    Those that only a company has are left out: it has values for many applications.
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
    """A run template, its application, its company, and the credentials it has, in their order."""

    template: Record
    app: Record
    company: Record
    credentials: Sequence[Record]
    types: Mapping[int, Record]

    @property
    def definition(self) -> Definition:
        """What the application says."""
        return parse(self.app)

    @property
    def sources(self) -> list[ValueSource]:
        """Where values come from, later ones over earlier ones."""
        return [
            default_source(self.definition),
            ValueSource(
                Text("company {name}", name=self.company["name"]),
                self.company["env"],
                page_of("company", self.company["id"]),
            ),
            *(self._credential_source(credential) for credential in self.credentials),
            ValueSource(Text("this run template"), self.template["env"], is_own=True),
        ]

    @property
    def values(self) -> list[SourcedValue]:
        """What its jobs get unless they say otherwise."""
        return list(resolve_values(self.definition, self.sources))

    @property
    def typed_credentials(self) -> list[tuple[Record, Record]]:
        """The credentials, each with its type."""
        return [(each, self.types[each["credential_type_id"]]) for each in self.credentials]

    def _credential_source(self, credential: Record) -> ValueSource:
        fields = self.types[credential["credential_type_id"]]["fields"]
        return credential_source(credential, fields, page_of("credential", credential["id"]))


async def read_template(visit: Visit, template_id: int) -> TemplateRecords:
    """Read a run template and what it refers to.

    Raises:
        ContractError: there is none that the visitor may see.
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
    """Read what a run template that is to be made refers to.

    Raises:
        ContractError: there is no such company or application that the visitor may see.
    """
    app = await visit.get(f"/app/{app_id}")
    company = await visit.get(f"/company/{company_id}")
    return TemplateRecords({"env": {}}, app, company, (), {})


async def read_template_paths(visit: Visit) -> dict[str, str]:
    """Return the run templates that somebody sees as `company/name`, by their ids."""

    def read() -> dict[str, str]:
        with visit.service.ledger.reading() as session:
            paths = template_paths(session, visit.who.rights.companies_with("jobs.read"))
        return {str(number): path for number, path in paths.items()}

    return await run_in_threadpool(read)
