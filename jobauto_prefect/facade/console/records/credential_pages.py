"""Credentials: a list, a page, and a form made of the fields of their types."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.console.records.choices import read_permitted_companies
from jobauto_prefect.facade.console.records.declared import (
    ACTIVE,
    BY_COMPANY,
    BY_NAME,
    COMPANY,
    Column,
    Narrowing,
    Part,
    Record,
    RecordPages,
    Related,
    record_link,
)
from jobauto_prefect.facade.console.records.fields import credential_fields
from jobauto_prefect.facade.console.records.forms import FieldGroup, FormField, fields_of, values_of
from jobauto_prefect.facade.console.records.pages import (
    NOTHING,
    Action,
    AnyCell,
    RecordForm,
    link,
    name_of,
    query_ids,
    require,
    text_cell,
)
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.kinds import KINDS

CREATE = "companies.create"


def _company(credential: Record, _view: View, _visit: Visit) -> AnyCell:
    company = credential["company"]
    return link(company["name"], f"{CONSOLE}/companies/{company['id']}")


def _values(credential: Record, visit: Visit) -> Iterable[tuple[FormField, str]]:
    """Return the fields of the credential's type, with the values it has."""
    for field in credential_fields(credential["type"]["fields"], visit.languages, visit.translate):
        yield field, credential["values"].get(field.key)


class CredentialPages(RecordPages):
    """The pages of credentials; secret values are masked."""

    kind, here, new = KINDS["credential"], "Credentials", Text("New credential")
    columns = (
        Column(Text("Name"), record_link("credentials")),
        COMPANY,
        Column(
            Text("Type"),
            lambda credential, _, visit: text_cell(
                visit.chosen("credential_types", credential["credential_type_id"])
            ),
        ),
    )
    filters = (
        BY_NAME,
        BY_COMPANY,
        Narrowing(
            "credential_type_id", Text("Type"), lambda visit: visit.choices("credential_types")
        ),
    )
    empty = Text("There is no credential yet. Run templates of its company can have it.")
    about = (
        _company,
        lambda credential, _, visit: Cell("text", name_of(credential["type"], visit.languages)),
    )
    facts = (
        Column(
            Text("Jobs that may use it at a time"),
            lambda credential, *_: text_cell(str(credential["max_jobs"])),
            when=lambda credential: credential["max_jobs"] is not None,
        ),
    )
    tables = (
        Part(
            "values",
            Text("Values"),
            _values,
            (
                Column(
                    Text("Name"), lambda pair, *_: Cell("text", pair[0].label, title=pair[0].key)
                ),
                Column(
                    Text("Value"), lambda pair, *_: Cell("code", pair[1]) if pair[1] else NOTHING
                ),
                Column(Text("Hint"), lambda pair, *_: text_cell(pair[0].hint)),
            ),
            Text("Its type has no fields."),
        ),
        Related(
            "templates",
            Text("Run templates that have it"),
            "runtemplates",
            lambda credential: {"credential_id": credential["id"]},
            (Column(Text("Name"), record_link("runtemplates")), ACTIVE),
            Text("None has it yet: choose it in the form of a run template."),
        ),
    )
    form = (
        FieldGroup(
            Text("Credential"),
            [
                FormField("/name", Text("Name"), is_required=True),
                FormField(
                    "/max_jobs",
                    Text("Jobs that may use it at a time"),
                    "number",
                    Text("Empty means as many as like."),
                ),
            ],
        ),
    )

    async def read(self, visit: Visit, number: int) -> View:
        """Read a credential with its type and its company."""
        view = await super().read(visit, number)
        return replace(view, data=await _whole(visit, view.data))

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return what the visitor may do to a credential."""
        return [replace(action, is_main=False) for action in super().actions(visit, record)]

    async def groups(self, visit: Visit, record: Record | None) -> Sequence[FieldGroup]:
        """Return the fields that all credentials have, and those of its type."""
        assert record is not None  # noqa: S101 - a new one has a type, too
        values = credential_fields(record["type"]["fields"], visit.languages, visit.translate)
        return [*self.form, FieldGroup(Text("Values"), values)]

    async def new_form(self, visit: Visit) -> RecordForm:
        """Return the form of a new one; first ask whose it is, and of which type."""
        reference = query_ids(visit.request, "company_id", "credential_type_id")
        company_id = reference.get("company_id")
        if company_id is None or "credential_type_id" not in reference:
            return await self._chooser(visit, company_id)
        require(visit.who, CREATE, company_id)
        whole = await _whole(visit, reference)
        groups = await self.groups(visit, whole)
        return RecordForm(
            title=visit.translate("New credential"),
            here=self.here,
            action=f"{self.address}/new?{urlencode(reference)}",
            target="/credential/",
            collection=self.folder,
            groups=groups,
            values=values_of(fields_of(groups), None),
            fixed=reference,
            back=self.address,
            submit=visit.translate("Save"),
            facts=_facts(whole, visit),
        )

    async def form_of(self, visit: Visit, record: Record) -> RecordForm:
        """Return the form of a credential."""
        whole = await _whole(visit, record)
        form = await super().form_of(visit, whole)
        return replace(form, facts=_facts(whole, visit))

    async def _chooser(self, visit: Visit, company_id: int | None) -> RecordForm:
        """Return the form that asks what the other fields follow from."""
        if not visit.who.rights.anywhere(CREATE):
            require(visit.who, CREATE, company_id)
        companies = await read_permitted_companies(visit.contract, CREATE, visit.languages)
        types = await visit.choices("credential_types")
        fields = [
            FormField("company_id", Text("Company"), "choice", choices=companies),
            FormField("credential_type_id", Text("Type"), "choice", choices=types),
        ]
        return RecordForm(
            title=visit.translate("New credential"),
            here=self.here,
            action=f"{self.address}/new",
            target="",
            collection=self.folder,
            groups=[FieldGroup(Text("Whose it is, and of which type"), fields)],
            values={"company_id": company_id},
            back=self.address,
            submit=visit.translate("Continue"),
            method="get",
        )


async def _whole(visit: Visit, credential: Record) -> dict[str, Any]:
    """Return a credential, or what a new one is of, with its type and its company."""
    type_id, company_id = credential["credential_type_id"], credential["company_id"]
    kind = (await visit.contract.read(f"/credential_type/{type_id}")).data
    company = (await visit.contract.read(f"/company/{company_id}")).data
    return {**credential, "type": kind, "company": company}


def _facts(credential: Record, visit: Visit) -> list[tuple[str, AnyCell]]:
    return [
        (visit.translate("Company"), text_cell(credential["company"]["name"])),
        (visit.translate("Type"), text_cell(name_of(credential["type"], visit.languages))),
    ]


router = CredentialPages().router()
