"""Companies: the list, the page of one, and its form."""

from collections.abc import Sequence
from dataclasses import replace

from jobauto_prefect.console_addresses import list_address
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.facade.console.records.cells import (
    ENABLED,
    Column,
    Record,
    code,
    enabled,
    name,
    text_cell,
)
from jobauto_prefect.facade.console.records.fields import (
    choice_fields,
    notice_group,
    retention_group,
    shown_with,
    whole_notices,
    whole_retention,
)
from jobauto_prefect.facade.console.records.forms import FieldGroup, FormField, WholeValue
from jobauto_prefect.facade.console.records.members import add_action, members_table
from jobauto_prefect.facade.console.records.pages import (
    BY_NAME,
    BY_STATE,
    Action,
    RecordPages,
    Table,
    related,
    related_templates,
)
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats.html.cells import Cell, is_picture
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.kinds import KINDS

NEW_VALUES = 3
"""Rows for values with new names in a form."""


def _of_company(company: Record) -> dict[str, int]:
    return {"company_id": company["id"]}


class CompanyPages(RecordPages):
    """The pages of companies."""

    kind, new = KINDS["company"], Text("New company")
    columns = (name("company"), "slug", "email", ENABLED)
    filters = (BY_NAME, BY_STATE)
    empty = Text("There are no companies yet. Run templates and credentials belong to companies.")
    about = (code("slug"),)
    badges = (enabled,)
    facts = (
        Column(
            Text("Logo"),
            lambda company, visit: Cell("image", visit.translate("Logo"), href=company["logo"]),
            when=lambda company: is_picture(company["logo"] or ""),
        ),
        *("email", "ic", "customer", "timezone", "topics", "calendars"),
    )
    tables = (
        related_templates(_of_company, (), Text("None.")),
        related(
            "credentials",
            Text("Credentials"),
            "credential",
            _of_company,
            (name("credential"),),
            Text("None."),
        ),
        Table(
            "values",
            Text("Values"),
            lambda company, _: company["env"].items(),
            (
                Column(Text("Name"), lambda pair, _: Cell("code", pair[0])),
                Column(Text("Value"), lambda pair, _: text_cell(pair[1])),
            ),
            Text("No values. A company's values are passed to all its run templates."),
        ),
    )
    form = (
        FieldGroup(
            Text("Company"),
            ("name", "slug", "enabled", "email", "logo", "ic", "customer", "timezone"),
        ),
        notice_group(of_template=False),
        retention_group(of_template=False),
        FieldGroup(
            Text("Settings and labels for other programs"), ("settings", "labels"), is_folded=True
        ),
    )

    def company_of(self, record: Record | None) -> int | None:
        """Return the company's own id."""
        return record["id"] if record else None

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return the actions of a company, and links to new records in it."""
        may, query = visit.who.rights.may, f"company_id={record['id']}"
        new = [
            ("companies.create", Text("New credential"), "credential"),
            ("companies.update", Text("New run template"), "runtemplate"),
        ]
        return [
            *(replace(action, is_main=False) for action in super().actions(visit, record)),
            *(
                Action(label, f"{list_address(item)}/new?{query}")
                for permission, label, item in new
                if may(permission, record["id"])
            ),
            *add_action(visit, record["id"]),
        ]

    def tables_of(self, visit: Visit, record: Record) -> Sequence[Table]:
        """Return the tables, with the company's members."""
        return [*self.tables, members_table(visit, record["id"])]

    async def groups(self, visit: Visit, record: Record | None) -> Sequence[FieldGroup]:
        """Return the fields of a company's form, including its values."""
        company, *others = self.form
        values = [
            FormField(child("/env", name), name, "secret" if text == MASK else "text")
            for name, text in (record["env"] if record else {}).items()
        ]
        new = [FormField(f"/env/+{number}", Text("Name of a new value"), "pair")
               for number in range(NEW_VALUES)]  # fmt: skip
        return [
            replace(company, fields=[*company.fields, *await choice_fields(visit)]),
            FieldGroup(Text("Values for all run templates"), [*values, *new]),
            *others,
        ]

    def values(self, record: Record) -> Record:
        """Return a company with its notices and retention as controls show them."""
        return shown_with(record, self.wholes(record)) or {}

    def wholes(self, record: Record | None) -> Sequence[WholeValue]:
        """Return notices and retention, which are sent as a whole."""
        return [whole_notices(record), whole_retention(record)]


router = CompanyPages().router()
