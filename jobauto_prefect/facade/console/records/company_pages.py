"""Companies: a list, a page, and a form for those there are and for new ones."""

from collections.abc import Sequence
from dataclasses import replace

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.facade.console.records.choices import read_names
from jobauto_prefect.facade.console.records.declared import (
    ACTIVE,
    BY_NAME,
    BY_STATE,
    ENABLED,
    Column,
    Part,
    Record,
    RecordPages,
    Related,
    code,
    enabled,
    fact,
    record_link,
    text,
)
from jobauto_prefect.facade.console.records.fields import (
    LABELS,
    choice_fields,
    notice_group,
    retention_group,
    shown_with,
    whole_notices,
    whole_retention,
)
from jobauto_prefect.facade.console.records.forms import FieldGroup, FormField, WholeValue
from jobauto_prefect.facade.console.records.member_pages import add_action, members_section
from jobauto_prefect.facade.console.records.pages import Action, Section, text_cell
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.formats.html.scalars import is_picture
from jobauto_prefect.kinds import KINDS

NEW_VALUES = 3
"""Values with new names that a form takes at a time."""


class CompanyPages(RecordPages):
    """The pages of companies."""

    kind, here, new = KINDS["company"], "Companies", Text("New company")
    columns = (
        Column(Text("Name"), record_link("companies")),
        Column(Text("Short name"), code("slug")),
        Column(Text("Mail"), text("email")),
        ENABLED,
    )
    filters = (BY_NAME, BY_STATE)
    empty = Text("There is no company yet. Run templates and credentials belong to one.")
    about = (code("slug"),)
    badges = (enabled,)
    facts = (
        Column(
            Text("Logo"),
            lambda company, _, visit: Cell("image", visit.translate("Logo"), href=company["logo"]),
            when=lambda company: is_picture(company["logo"] or ""),
        ),
        fact(Text("Mail"), "email"),
        fact(Text("Registration number"), "ic"),
        fact(Text("Customer number"), "customer"),
        fact(Text("Time zone"), "timezone"),
        fact(Text("Topics"), "topics"),
        fact(Text("Calendars"), "calendars"),
    )
    tables = (
        Related(
            "templates",
            Text("Run templates"),
            "runtemplates",
            lambda company: {"company_id": company["id"]},
            (Column(Text("Name"), record_link("runtemplates")), ACTIVE),
            Text("It has none."),
        ),
        Related(
            "credentials",
            Text("Credentials"),
            "credentials",
            lambda company: {"company_id": company["id"]},
            (Column(Text("Name"), record_link("credentials")),),
            Text("It has none."),
        ),
        Part(
            "values",
            Text("Values"),
            lambda company, _: company["env"].items(),
            (
                Column(Text("Name"), lambda pair, *_: Cell("code", pair[0])),
                Column(Text("Value"), lambda pair, *_: text_cell(pair[1])),
            ),
            Text("The company has no values of its own. All its run templates get them."),
        ),
    )
    form = (
        FieldGroup(
            Text("Company"),
            [
                FormField("/name", Text("Name"), is_required=True),
                FormField(
                    "/slug",
                    Text("Short name"),
                    hint=Text(
                        "Letters, digits, _ and -; it is part of names in Prefect. Empty for one "
                        "made of the name."
                    ),
                ),
                FormField("/enabled", Text("Enabled"), "flag", default=True),
                FormField("/email", Text("Mail")),
                FormField(
                    "/logo",
                    Text("Logo"),
                    "picture",
                    Text("An address, or a file: PNG, JPEG, GIF or WebP up to 700 KB."),
                ),
                FormField("/ic", Text("Registration number")),
                FormField(
                    "/customer",
                    Text("Customer number"),
                    "number",
                    Text("What another system knows the company by."),
                ),
                FormField(
                    "/timezone",
                    Text("Time zone"),
                    hint=Text("Such as Europe/Prague; empty means that of the service."),
                ),
            ],
        ),
        notice_group(of_template=False),
        retention_group(of_template=False),
        FieldGroup(
            Text("Settings and labels for other programs"),
            [
                FormField(
                    "/settings",
                    Text("Settings"),
                    "long",
                    Text("Free text that clients keep here; the service does not read it."),
                ),
                LABELS,
            ],
            is_folded=True,
        ),
    )

    def company_of(self, record: Record | None) -> int | None:
        """Return the company itself."""
        return record["id"] if record else None

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return what the visitor may do to a company, and make in it."""
        may, query = visit.who.rights.may, f"company_id={record['id']}"
        edits = [replace(action, is_main=False) for action in super().actions(visit, record)]
        new = [
            ("companies.create", Text("New credential"), "credentials"),
            ("companies.update", Text("New run template"), "runtemplates"),
        ]
        return [
            *edits,
            *(
                Action(visit.translate(label), f"{CONSOLE}/{folder}/new?{query}")
                for permission, label, folder in new
                if may(permission, record["id"])
            ),
            *add_action(visit, record["id"]),
        ]

    async def sections(self, visit: Visit, record: Record, view: View) -> list[Section]:
        """Return the tables of a company's page, with its members."""
        return [
            *await super().sections(visit, record, view),
            await members_section(visit, record["id"]),
        ]

    async def groups(self, visit: Visit, record: Record | None) -> Sequence[FieldGroup]:
        """Return the fields of a company's form, with those of its values."""
        topics = await read_names(visit.contract, "topics")
        calendars = await read_names(visit.contract, "calendars")
        company, *others = self.form
        values = [
            FormField(child("/env", name), name, "secret" if text == MASK else "text")
            for name, text in (record["env"] if record else {}).items()
        ]
        new = [FormField(f"/env/+{number}", Text("Name of a new value"), "pair")
               for number in range(NEW_VALUES)]  # fmt: skip
        return [
            replace(company, fields=[*company.fields, *choice_fields(topics, calendars)]),
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
