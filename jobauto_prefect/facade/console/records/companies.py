"""Companies: a list, a page, and a form for those there are and for new ones."""

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
"""Values with new names that a form takes at a time."""


def _of_company(company: Record) -> dict[str, int]:
    return {"company_id": company["id"]}


class CompanyPages(RecordPages):
    """The pages of companies."""

    kind, new = KINDS["company"], Text("New company")
    columns = (name("company"), "slug", "email", ENABLED)
    filters = (BY_NAME, BY_STATE)
    empty = Text("There is no company yet. Run templates and credentials belong to one.")
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
        related_templates(_of_company, (), Text("It has none.")),
        related(
            "credentials",
            Text("Credentials"),
            "credential",
            _of_company,
            (name("credential"),),
            Text("It has none."),
        ),
        Table(
            "values",
            Text("Values"),
            lambda company, _: company["env"].items(),
            (
                Column(Text("Name"), lambda pair, _: Cell("code", pair[0])),
                Column(Text("Value"), lambda pair, _: text_cell(pair[1])),
            ),
            Text("The company has no values of its own. All its run templates get them."),
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
        """Return the company itself."""
        return record["id"] if record else None

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return what the visitor may do to a company, and make in it."""
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
        """Return the tables of a company's page, with its members."""
        return [*self.tables, members_table(visit, record["id"])]

    async def groups(self, visit: Visit, record: Record | None) -> Sequence[FieldGroup]:
        """Return the fields of a company's form, with those of its values."""
        company, *others = self.form
        values = [
            FormField(child("/env", name), name, "secret" if text == MASK else "text")
            for name, text in (record["env"] if record else {}).items()
        ]
        new = [FormField(f"/env/+{number}", Text("Name of a new value"), "pair")
               for number in range(NEW_VALUES)]  # fmt: skip
        return [
            replace(company, fields=[*company.fields, *await choice_fields(visit)]),
            FieldGroup(Text("Values for all its run templates"), [*values, *new]),
            *others,
        ]

    def values(self, record: Record) -> Record:
        """Return a company with its notices and bounds as controls show them."""
        return shown_with(record, self.wholes(record)) or {}

    def wholes(self, record: Record | None) -> Sequence[WholeValue]:
        """Return the fields that are written as a whole."""
        return [whole_notices(record), whole_retention(record)]


router = CompanyPages().router()
