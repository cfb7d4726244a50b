"""Credentials: the list, the page of one, and a form made from the fields of its type."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from jobauto_prefect.facade.console.records.cells import (
    COMPANY,
    NOTHING,
    AnyCell,
    Column,
    Record,
    link_to,
    name,
    name_of,
    number,
    text_cell,
)
from jobauto_prefect.facade.console.records.fields import credential_fields
from jobauto_prefect.facade.console.records.forms import FieldGroup, FormField
from jobauto_prefect.facade.console.records.pages import (
    BY_COMPANY,
    BY_NAME,
    Action,
    Filter,
    RecordForm,
    RecordPages,
    Table,
    related_templates,
)
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats.html.cells import Cell
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.kinds.registry import shown_fields
from jobauto_prefect.kinds import KINDS

CREATE = "companies.create"


def _values(credential: Record, visit: Visit) -> Iterable[tuple[FormField, str]]:
    """Return the fields of the credential's type, with its values."""
    for field in credential_fields(credential["type"]["fields"], visit.languages, visit.translate):
        yield field, credential["values"].get(field.key)


BY_TYPE = Filter(
    "credential_type_id", Text("Type"), lambda visit: visit.choices("credential_types")
)


class CredentialPages(RecordPages):
    """The pages of credentials; secret values are masked."""

    kind, new = KINDS["credential"], Text("New credential")
    columns = (
        name("credential"),
        COMPANY,
        Column(
            Text("Type"),
            lambda credential, visit: text_cell(visit.named(credential, "credential_type_id", "")),
        ),
    )
    filters = (
        BY_NAME,
        BY_COMPANY,
        BY_TYPE,
    )
    empty = Text(
        "There are no credentials yet. Run templates use the credentials of their company."
    )
    about = (
        lambda each, _: link_to("company", each["company"]["id"], each["company"]["name"]),
        lambda credential, visit: Cell("text", name_of(credential["type"], visit.languages)),
    )
    facts = (
        Column(
            shown_fields("credential")["max_jobs"].label,
            number("max_jobs"),
            when=lambda credential: credential["max_jobs"] is not None,
        ),
    )
    tables = (
        Table(
            "values",
            Text("Values"),
            _values,
            (
                Column(
                    Text("Name"), lambda pair, _: Cell("text", pair[0].label, title=pair[0].key)
                ),
                Column(
                    Text("Value"), lambda pair, _: Cell("code", pair[1]) if pair[1] else NOTHING
                ),
                Column(Text("Hint"), lambda pair, _: text_cell(pair[0].hint)),
            ),
            Text("The type has no fields."),
        ),
        related_templates(
            lambda credential: {"credential_id": credential["id"]},
            (),
            Text("None yet. Assign the credential in the form of a run template."),
            Text("Run templates"),
        ),
    )
    form = (FieldGroup(Text("Credential"), ("name", "max_jobs")),)

    async def read(self, visit: Visit, key: Any) -> Record:
        """Read a credential with its type and its company."""
        return await _whole(visit, await super().read(visit, key))

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        return [replace(action, is_main=False) for action in super().actions(visit, record)]

    async def groups(self, visit: Visit, record: Record | None) -> Sequence[FieldGroup]:
        """Return the fields that all credentials have, and those of its type."""
        assert record is not None  # noqa: S101 - a new one has a type as well
        values = credential_fields(record["type"]["fields"], visit.languages, visit.translate)
        return [*self.form, FieldGroup(Text("Values"), values)]

    async def new_form(self, visit: Visit) -> RecordForm:
        """Return the form of a new credential; company and type are asked for first."""
        reference = visit.asked_ids("company_id", "credential_type_id")
        company_id = reference.get("company_id")
        if company_id is None or "credential_type_id" not in reference:
            title, values = Text("Company and type"), {"company_id": company_id}
            return await self.chooser(visit, CREATE, title, BY_TYPE, values)
        visit.require(CREATE, company_id)
        whole = await _whole(visit, reference)
        form = await self.form_of_new(visit, reference, whole)
        return replace(form, facts=_facts(whole, visit))

    async def form_of(self, visit: Visit, record: Record) -> RecordForm:
        whole = await _whole(visit, record)
        form = await super().form_of(visit, whole)
        return replace(form, facts=_facts(whole, visit))


async def _whole(visit: Visit, credential: Record) -> dict[str, Any]:
    """Return a credential, or the reference of a new one, with its type and its company."""
    kind = await visit.get(f"/credential_type/{credential['credential_type_id']}")
    company = await visit.get(f"/company/{credential['company_id']}")
    return {**credential, "type": kind, "company": company}


def _facts(credential: Record, visit: Visit) -> list[tuple[str, AnyCell]]:
    return [
        (Text("Company"), text_cell(credential["company"]["name"])),
        (Text("Type"), text_cell(name_of(credential["type"], visit.languages))),
    ]


router = CredentialPages().router()
