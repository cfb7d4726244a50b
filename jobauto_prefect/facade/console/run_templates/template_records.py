"""A run template with what it refers to, as its pages need it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.definitions import Definition, parse
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.contract import Contract
from jobauto_prefect.facade.console.run_templates.value_sources import (
    SourcedValue,
    ValueSource,
    credential_source,
    default_source,
    resolve_values,
)
from jobauto_prefect.facade.service import Service
from jobauto_prefect.ledger.queries.run_templates import template_paths

Record = Mapping[str, Any]


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
            ValueSource("company", self.company["env"], self.company["name"],
                        f"{CONSOLE}/companies/{self.company['id']}"),
            *(self._credential_source(credential) for credential in self.credentials),
            ValueSource("template", self.template["env"]),
        ]  # fmt: skip

    @property
    def values(self) -> list[SourcedValue]:
        """What its jobs get unless they say otherwise."""
        return list(resolve_values(self.definition, self.sources))

    def _credential_source(self, credential: Record) -> ValueSource:
        fields = self.types[credential["credential_type_id"]]["fields"]
        href = f"{CONSOLE}/credentials/{credential['id']}"
        return credential_source(credential, fields, href)


async def read_template(contract: Contract, template_id: int) -> TemplateRecords:
    """Read a run template and what it refers to.

    Raises:
        ContractError: there is none that the visitor may see.
    """
    template = (await contract.read(f"/runtemplate/{template_id}")).data
    company_id = template["company_id"]
    app = (await contract.read(f"/app/{template['app_id']}")).data
    company = (await contract.read(f"/company/{company_id}")).data
    credentials: list[Record] = []
    types: dict[int, Record] = {}
    if template["credentials"]:
        listed = (await contract.read("/credentials", {"company_id": company_id})).data
        by_id = {record["id"]: record for record in listed.values()}
        credentials = [by_id[number] for number in template["credentials"] if number in by_id]
        kinds = (await contract.read("/credential_types")).data
        types = {record["id"]: record for record in kinds.values()}
    return TemplateRecords(template, app, company, credentials, types)


async def read_new_template(contract: Contract, company_id: int, app_id: int) -> TemplateRecords:
    """Read what a run template that is to be made refers to.

    Raises:
        ContractError: there is no such company or application that the visitor may see.
    """
    app = (await contract.read(f"/app/{app_id}")).data
    company = (await contract.read(f"/company/{company_id}")).data
    return TemplateRecords({"env": {}}, app, company, (), {})


async def read_template_paths(request: Request, who: Identity) -> dict[str, str]:
    """Return the run templates that somebody sees as `company/name`, by their ids."""
    service: Service = request.app.state.service

    def read() -> dict[str, str]:
        with service.ledger.reading() as session:
            paths = template_paths(session, who.rights.companies_with("jobs.read"))
        return {str(number): path for number, path in paths.items()}

    return await run_in_threadpool(read)
