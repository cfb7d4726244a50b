"""The pages of a kind of records, as a class declares them: a list, a record, its forms."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from urllib.parse import urlencode

from fastapi import APIRouter, Response

from jobauto_prefect.console_addresses import CONSOLE, CONTRACT
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.records.choices import Choices, owner_field
from jobauto_prefect.facade.console.records.forms import (
    FieldGroup,
    WholeValue,
    fields_of,
    values_of,
)
from jobauto_prefect.facade.console.records.pages import (
    Action,
    AnyCell,
    ListFilter,
    ListPage,
    RecordForm,
    RecordPage,
    Section,
    add_form_routes,
    enabled_badge,
    link,
    list_query,
    moment_cell,
    name_of,
    read_list,
    require,
    respond_with_list,
    respond_with_record,
    state_badge,
    text_cell,
)
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell, clip
from jobauto_prefect.facade.formats.html.page_language import Text, tell
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.kinds import Kind

Record = Mapping[str, Any]


Draw = Callable[[Any, View, Visit], AnyCell]
"""Draws something of a record; the view is the one that has it, with the names of what it names."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a fact; `when`: of which records the fact is told, None: of all."""

    label: Text
    draw: Draw
    when: Callable[[Any], object] | None = None


def has(field: str) -> Callable[[Record], object]:
    """Return whether records say something in a field."""
    return lambda record: record.get(field)


def text(field: str) -> Draw:
    """Draw a text, or several."""

    def draw(record: Record, _view: View, _visit: Visit) -> AnyCell:
        value = record.get(field)
        return text_cell(", ".join(value) if isinstance(value, list) else str(value or ""))

    return draw


def fact(label: Text, field: str) -> Column:
    """Return the fact that a field says, where it says something."""
    return Column(label, text(field), when=has(field))


def clipped(field: str) -> Draw:
    """Draw the beginning of a text."""
    return lambda record, _view, _visit: text_cell(clip(record[field] or ""))


def code(field: str) -> Draw:
    """Draw what programs are told, too."""
    return lambda record, _view, _visit: Cell("code", record[field])


def colour(field: str) -> Draw:
    """Draw a colour."""
    return lambda record, _view, _visit: Cell("colour", f"#{record[field]}")


def moment(field: str) -> Draw:
    """Draw a time."""
    return lambda record, _view, visit: moment_cell(record[field], visit.now, visit.translate)


def record_link(folder: str) -> Draw:
    """Draw a record's name, which leads to its page in this folder of the console."""
    return lambda record, _view, visit: link(
        name_of(record, visit.languages), f"{CONSOLE}/{folder}/{record['id']}"
    )


def company(record: Record, view: View, _visit: Visit) -> AnyCell:
    """Draw the name of the record's company."""
    return text_cell(view.named(record, "company_id", ""))


def owner(record: Record, view: View, visit: Visit) -> AnyCell:
    """Draw whose a definition is."""
    number = record["company_id"]
    if number is None:
        return Cell("text", visit.translate("shared by all"))
    return link(view.named(record, "company_id"), f"{CONSOLE}/companies/{number}")


def enabled(record: Record, _view: View, visit: Visit) -> AnyCell:
    """Draw whether a record may be used."""
    return enabled_badge(record, visit.translate)


OWNER = Column(Text("Company"), owner)


COMPANY = Column(Text("Company"), company)


ENABLED = Column(Text("State"), enabled)


ACTIVE = Column(Text("State"), lambda record, _view, visit: state_badge(record, visit.translate))


def heads(columns: Sequence[Column], visit: Visit) -> list[str]:
    """Return the heads of a table."""
    return [tell(column.label, visit.translate) for column in columns]


def rows(
    columns: Sequence[Column], records: Iterable[Record], view: View, visit: Visit
) -> list[list[AnyCell]]:
    """Return the rows of a table."""
    return [[column.draw(record, view, visit) for column in columns] for record in records]


def facts(
    columns: Sequence[Column], record: Record, view: View, visit: Visit
) -> list[tuple[str, AnyCell]]:
    """Return what a record's page says first."""
    return [
        (tell(column.label, visit.translate), column.draw(record, view, visit))
        for column in columns
        if column.when is None or column.when(record)
    ]


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A control that narrows a list: it takes one of the choices; None: it takes any text."""

    name: str
    label: Text
    choices: Choices | Callable[[Visit], Awaitable[Choices]] | None = None

    async def control(self, visit: Visit) -> ListFilter:
        """Return it as the visitor sees it."""
        choices = await self.choices(visit) if callable(self.choices) else self.choices
        if choices is not None:
            choices = [(value, tell(label, visit.translate)) for value, label in choices]
        return ListFilter(self.name, tell(self.label, visit.translate), choices)


SHARED: Mapping[str, Any] = {"company_id": None}
"""What a body says of a new record that belongs to no company."""


BY_NAME = Narrowing("name", Text("Name"))


BY_COMPANY = Narrowing("company_id", Text("Company"), lambda visit: visit.choices("companies"))


BY_STATE = Narrowing(
    "enabled", Text("State"), (("true", Text("enabled")), ("false", Text("switched off")))
)


@dataclass(frozen=True, slots=True)
class Part:
    """A table of what is read with a record: `rows` are a part of it. `page` has all of it."""

    key: str
    title: Text
    rows: Callable[[Record, Visit], Iterable[Any]]
    columns: Sequence[Column]
    empty: Text
    page: Callable[[Record], str] = lambda _: ""

    async def section(self, visit: Visit, record: Record, view: View) -> Section:
        """Return it as the visitor sees it."""
        drawn = rows(self.columns, self.rows(record, visit), view, visit)
        return _section(self, visit, drawn, self.page(record))


@dataclass(frozen=True, slots=True)
class Related:
    """A table of records that have to do with one: those of a list that `query` chooses."""

    key: str
    title: Text
    collection: str
    query: Callable[[Record], Mapping[str, Any]]
    columns: Sequence[Column]
    empty: Text

    async def section(self, visit: Visit, record: Record, _view: View) -> Section:
        """Return it as the visitor sees it."""
        query = self.query(record)
        view = await read_list(visit.contract, self.collection, query)
        drawn = rows(self.columns, view.data.values(), view, visit)
        return _section(self, visit, drawn, f"{CONSOLE}/{self.collection}?{urlencode(query)}")


def _section(
    table: Part | Related, visit: Visit, drawn: Sequence[Sequence[AnyCell]], href: str
) -> Section:
    return Section(
        table.key,
        tell(table.title, visit.translate),
        heads(table.columns, visit),
        drawn,
        tell(table.empty, visit.translate),
        href,
    )


class RecordPages:
    """The pages of a kind; the class of a kind says what they show, and overrides what differs.

    `folder` and `parameter` are the parts of addresses that are not as the contract's, `named` is
    the field that tells records apart for people. `about` and `badges` stand beside that name.
    `new` is the label of the link to a new one; without it there are no forms. The fields of
    `identity` are for those who may change what all share. `fixed` goes with each new record,
    `note` stands above its form.
    """

    kind: ClassVar[Kind]
    folder: str = ""
    parameter: str = ""
    named: ClassVar[str] = "name"
    here: ClassVar[str]
    columns: ClassVar[Sequence[Column]]
    filters: ClassVar[Sequence[Narrowing]] = (BY_COMPANY,)
    empty: ClassVar[Text]
    about: ClassVar[Sequence[Draw]] = ()
    badges: ClassVar[Sequence[Draw]] = ()
    facts: ClassVar[Sequence[Column]] = ()
    tables: ClassVar[Sequence[Part | Related]] = ()
    new: ClassVar[str] = ""
    form: ClassVar[Sequence[FieldGroup]] = ()
    identity: ClassVar[Collection[str]] = ()
    fixed: ClassVar[Mapping[str, Any]] = {}
    note: ClassVar[str] = ""

    def __init__(self) -> None:
        self.folder = self.folder or self.kind.collection
        self.parameter = self.parameter or self.kind.item
        self.address = f"{CONSOLE}/{self.folder}"

    def router(self) -> APIRouter:
        """Return the routes of the pages."""
        router = late_routes.router(include_in_schema=False)
        router.get(self.address)(self.show_list)
        router.get(f"{self.address}/{{{self.parameter}:int}}")(self.show_record)
        if self.new:
            add_form_routes(router, self.address, self.parameter, self.edit_form, self.new_form)
        return router

    def may(self, who: Identity, action: str, record: Record | None = None) -> bool:
        """Whether somebody may do this to a record, or (None) make one."""
        permission = f"{self.kind.permissions}.{action}"
        if record is None and self.kind.owner:
            return who.rights.anywhere(permission)
        return who.rights.may(permission, self.company_of(record))

    def require(self, who: Identity, action: str, record: Record | None = None) -> None:
        """Require somebody who may. Raises ContractError."""
        if not self.may(who, action, record):
            require(who, f"{self.kind.permissions}.{action}", self.company_of(record))

    def company_of(self, record: Record | None) -> int | None:
        """Return the company whose rights count; None: a record is nobody's own."""
        return record.get("company_id") if record else None

    async def show_list(self, visit: CurrentVisit) -> Response:
        """List records."""
        names = [each.name for each in self.filters]
        view = await read_list(
            visit.contract, self.kind.collection, list_query(visit.request, names)
        )
        filters = [await each.control(visit) for each in self.filters]
        page = ListPage(
            collection=self.folder,
            title=self.kind.many,
            here=self.here,
            heads=heads(self.columns, visit),
            rows=rows(self.columns, view.data.values(), view, visit),
            filters=filters,
            empty=tell(self.empty, visit.translate),
            actions=self.list_actions(visit),
        )
        return respond_with_list(visit.request, visit.who, page, view)

    def list_actions(self, visit: Visit) -> list[Action]:
        """Return what the visitor may do beside the list."""
        if not self.new or not self.may(visit.who, "create"):
            return []
        return [Action(tell(self.new, visit.translate), f"{self.address}/new", is_main=True)]

    async def show_record(self, visit: CurrentVisit) -> Response:
        """Show a record."""
        number = visit.request.path_params[self.parameter]
        view = await self.read(visit, number)
        record = view.data
        page = RecordPage(
            title=self.title(record, visit),
            about=[draw(record, view, visit) for draw in self.about],
            badges=[draw(record, view, visit) for draw in self.badges],
            actions=self.actions(visit, record),
            facts=facts(self.facts, record, view, visit),
            sections=await self.sections(visit, record, view),
            contract_href=f"{CONTRACT}/{self.kind.item}/{number}.html",
            prefect_url=record.get("prefect_url"),
        )
        return respond_with_record(visit.request, visit.who, page, here=self.here)

    async def read(self, visit: Visit, number: int) -> View:
        """Read a record, with what else its page shows. Raises ContractError."""
        return await visit.contract.read(f"/{self.kind.item}/{number}")

    def title(self, record: Record, visit: Visit) -> str:
        """Return what a record's page is called."""
        return name_of(record, visit.languages)

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return what the visitor may do to a record."""
        if not self.may(visit.who, "update", record):
            return []
        href = f"{self.address}/{record['id']}/edit"
        return [Action(visit.translate("Edit"), href, is_main=True)]

    async def sections(self, visit: Visit, record: Record, view: View) -> list[Section]:
        """Return the tables of a record's page."""
        return [await each.section(visit, record, view) for each in self.tables]

    async def groups(self, _visit: Visit, _record: Record | None) -> Sequence[FieldGroup]:
        """Return the fields of a record's form; None: of a new one's."""
        return self.form

    def values(self, record: Record) -> Record:
        """Return a record as its form shows it."""
        return record

    def wholes(self, _record: Record | None) -> Sequence[WholeValue]:
        """Return the fields of a record that are written as a whole; None: of a new one."""
        return ()

    async def new_form(self, visit: Visit) -> RecordForm:
        """Return the form of a new record. Raises ContractError."""
        self.require(visit.who, "create")
        groups = list(await self.groups(visit, None))
        if self.kind.owner == "shared":
            permission = f"{self.kind.permissions}.create"
            owner = await owner_field(visit.contract, permission, visit.languages, visit.translate)
            groups[0] = replace(groups[0], fields=[owner, *groups[0].fields])
        return RecordForm(
            title=tell(self.new, visit.translate),
            here=self.here,
            action=f"{self.address}/new",
            target=f"/{self.kind.item}/",
            collection=self.folder,
            groups=groups,
            values=values_of(fields_of(groups), None),
            wholes=self.wholes(None),
            fixed=self.fixed,
            back=self.address,
            submit=visit.translate("Save"),
            note=tell(self.note, visit.translate),
        )

    async def edit_form(self, visit: Visit, number: int) -> RecordForm:
        """Return the form of a record. Raises ContractError."""
        record = (await visit.contract.read(f"/{self.kind.item}/{number}")).data
        self.require(visit.who, "update", record)
        return await self.form_of(visit, record)

    async def form_of(self, visit: Visit, record: Record) -> RecordForm:
        """Return the form of a record for somebody who may change it."""
        groups = await self.groups(visit, record)
        if not visit.who.rights.may(f"{self.kind.permissions}.update", None):
            groups = [
                replace(each, fields=[f for f in each.fields if f.pointer not in self.identity])
                for each in groups
            ]
        address = f"{self.address}/{record['id']}"
        return RecordForm(
            title=visit.translate("Edit {name}", name=record[self.named]),
            here=self.here,
            action=f"{address}/edit",
            target=f"/{self.kind.item}/{record['id']}.json",
            collection=self.folder,
            groups=groups,
            values=values_of(fields_of(groups), self.values(record)),
            wholes=self.wholes(record),
            back=address,
            submit=visit.translate("Save"),
        )
