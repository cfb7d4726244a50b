"""The pages of a kind of records, declared by a class: the list, the record and its forms.

A field's name stands for its column, its fact or its control; label, hint and type come from the
model of the body that clients write.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any, ClassVar, Literal
from urllib.parse import urlencode
from uuid import uuid4

from fastapi import APIRouter, Response

from jobauto_prefect.console_addresses import CONTRACT, list_address, page_of
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.contract import PASSWORD, ContractError
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.cells import (
    ACTIVE,
    AnyCell,
    Column,
    Draw,
    Record,
    drawn,
    has,
    name,
    name_of,
)
from jobauto_prefect.facade.console.records.forms import (
    SENT_FORM,
    FieldGroup,
    Form,
    FormField,
    SentForm,
    Values,
    WholeValue,
    control_of,
    draw_groups,
    errors_apart,
    fields_of,
    read_changes,
    values_of,
)
from jobauto_prefect.facade.console.visit import Choices, CurrentVisit, Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.kinds.registry import BY_ITEM, shown_fields
from jobauto_prefect.kinds import Kind

PAGE = 50
"""Records on a page of a list."""

KEY = "idempotency-key"
"""The hidden control that identifies one submission of a form."""

SHOWN_AGAIN = frozenset({400, 403, 409, 412, 413, 422})
"""Statuses of refusals that the visitor can correct in the form."""

SHARED: Mapping[str, Any] = {"company_id": None}
"""Members of the body of a new record that belongs to no company."""


@dataclass(frozen=True, slots=True)
class Action:
    """A link, or with `posts` a button that submits a form."""

    label: str
    href: str
    posts: bool = False
    is_main: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of a list: it takes one of `choices`, or any text if they are None."""

    name: str
    label: str
    choices: Choices | Callable[[Visit], Awaitable[Choices]] | None = None


BY_NAME = Filter("name", Text("Name"))
BY_COMPANY = Filter("company_id", Text("Company"), lambda visit: visit.choices("companies"))
BY_STATE = Filter(
    "enabled", Text("State"), (("true", Text("enabled")), ("false", Text("disabled")))
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table on a record's page: part of the record, or read separately.

    `empty` is the text if there are no rows, `page` the address of the complete list, `when`
    selects the records that have the table.
    """

    key: str
    title: str
    rows: Callable[[Any, Visit], Iterable[Any] | Awaitable[Iterable[Any]]]
    columns: Sequence[Column]
    empty: str
    page: Callable[[Any], str] = lambda _: ""
    when: Callable[[Any], object] = lambda _: True


@dataclass(frozen=True, slots=True)
class Section:
    """A table with its rows as the visitor sees them."""

    table: Table
    rows: Sequence[Sequence[AnyCell]]
    href: str


def related(
    key: str,
    title: str,
    item: str,
    query: Callable[[Record], Mapping[str, Any]],
    columns: Sequence[Column],
    empty: str,
) -> Table:
    """Return a table of the records of a kind that match a query."""
    collection = BY_ITEM[item].kind.collection

    async def rows(record: Record, visit: Visit) -> Iterable[Record]:
        found = await visit.get(f"/{collection}", {**query(record), "limit": PAGE})
        return list(found.values())

    def page(record: Record) -> str:
        return f"{list_address(item)}?{urlencode(query(record))}"

    return Table(key, title, rows, columns, empty, page)


def related_templates(
    query: Callable[[Record], Mapping[str, Any]],
    columns: Sequence[Column],
    empty: str,
    title: str = Text("Run templates"),
) -> Table:
    """Return a table of the run templates that match a query."""
    columns = (name("runtemplate"), *columns, ACTIVE)
    return related("templates", title, "runtemplate", query, columns, empty)


@dataclass(frozen=True, slots=True)
class RecordForm:
    """A form that writes a record of a kind through the contract.

    `action` is the address of the form, `target` the contract's path, `back` the address of the
    cancel link. `values` are the record's, `prefilled` are shown instead of them. `fixed` is part
    of each body, `wholes` are the fields that are sent as a whole. `offers` are the suggestions of
    `named` fields. After success the browser is sent to the record of `kind`, with the notification
    `done`. `is_dangerous`: the form does something that can't be undone.
    """

    title: str
    action: str
    target: str
    kind: str
    groups: Sequence[FieldGroup]
    values: Values
    back: str
    submit: str = Text("Save")
    fixed: Mapping[str, Any] = field(default_factory=dict)
    prefilled: Values = field(default_factory=dict)
    wholes: Sequence[WholeValue] = ()
    offers: Mapping[str, Collection[str]] = field(default_factory=dict)
    facts: Sequence[tuple[str, AnyCell]] = ()
    note: str = ""
    done: str = "saved"
    is_dangerous: bool = False
    method: Literal["post", "get"] = "post"
    here: str | None = None

    @property
    def takes_files(self) -> bool:
        """Whether one of its controls takes a file."""
        return any(control.kind == "picture" for control in fields_of(self.groups))

    @property
    def is_new(self) -> bool:
        """Whether it creates a record."""
        return self.target.endswith("/")


def respond_with_form(
    visit: Visit, form: RecordForm, sent: Form | None = None, error: ContractError | None = None
) -> Response:
    """Send a form; if it was submitted before, with the typed values and the errors."""
    kept = getattr(visit.request.state, SENT_FORM, None)
    sent = sent or kept
    return visit.respond(
        "records/form.html",
        form.title,
        here=form.here,
        status=error.status if error else 200,
        form=form,
        groups=draw_groups(form.groups, {**form.values, **form.prefilled}, sent, error),
        apart=errors_apart(form.groups, error),
        is_refused=error is not None,
        is_kept=kept is not None,
        key=(sent.get(KEY) if sent else None) or str(uuid4()),
    )


async def save(visit: Visit, form: RecordForm, sent: Form) -> Response:
    """Save a form and redirect to its record's page; show the form again if it is refused.

    If the form has the control `PASSWORD`, the visitor's password goes with the request.

    Raises:
        ContractError: the visitor may not do this.
    """
    try:
        fields = [each for each in fields_of(form.groups) if each.pointer != PASSWORD]
        body = {**form.fixed, **read_changes(fields, sent, form.values, form.wholes)}
        key, password = _key_of(form, sent, body), sent.get(PASSWORD)
        record = await visit.contract.write(
            "POST", form.target, body, key=key, is_new=form.is_new, password=password
        )
    except ContractError as error:
        if error.status not in SHOWN_AGAIN:
            raise
        return respond_with_form(visit, form, sent, error)
    warnings = [fault["message"] for fault in record.get("warnings", ())]
    return redirect_after(visit.request, page_of(form.kind, record["id"]), form.done, warnings)


def _key_of(form: RecordForm, sent: Form, body: Mapping[str, Any]) -> str:
    """Return the Idempotency-Key of a submission; "" for changes, which need none.

    The same form submitted twice creates one record; with other values it is a new request.
    """
    if not form.is_new or not sent.get(KEY):
        return ""
    said = json.dumps([sent[KEY], body], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


class RecordPages:
    """The pages of a kind; a subclass declares what they show and overrides what differs.

    `parameter` is the path parameter if it is not the kind's name, `named` is the field that
    identifies a record to people. `about` and `badges` are shown beside that name. `new` is the
    label of the link to a new record; without it there are no forms. Only visitors who may change
    shared records may change the fields of `identity`. `fixed` is part of the body of each new
    record, `note` is shown above its form.

    The form of a new record has a control for its company where its kind has an `owner`. A kind of
    which other fields follow from the company asks for it first: its `new_form` returns `chooser`.
    """

    kind: ClassVar[Kind]
    parameter: str = ""
    named: ClassVar[str] = "name"
    columns: Sequence[str | Column] = ()
    filters: ClassVar[Sequence[Filter]] = (BY_COMPANY,)
    order: ClassVar[str] = ""
    page_length: ClassVar[int] = PAGE
    empty: ClassVar[str]
    list_template: ClassVar[str] = "records/list.html"
    about: ClassVar[Sequence[Draw]] = ()
    badges: ClassVar[Sequence[Draw]] = ()
    facts: Sequence[str | Column] = ()
    tables: Sequence[Table] = ()
    new: ClassVar[str] = ""
    form: ClassVar[Sequence[FieldGroup]] = ()
    identity: ClassVar[Collection[str]] = ()
    fixed: ClassVar[Mapping[str, Any]] = {}
    note: ClassVar[str] = ""

    def __init__(self) -> None:
        self.parameter = self.parameter or self.kind.item
        self.address = list_address(self.kind.item)
        self.item_path = f"{self.address}/{{{self.parameter}:int}}"
        self.shown = shown_fields(self.kind.item)

    def router(self) -> APIRouter:
        """Return the routes of the pages."""
        router = late_routes.router(include_in_schema=False)
        router.get(self.address)(self.show_list)
        router.get(self.item_path)(self.show_record)
        if self.new:
            router.get(f"{self.address}/new")(self.show_new_form)
            router.post(f"{self.address}/new")(self.make)
            router.get(f"{self.item_path}/edit")(self.show_form)
            router.post(f"{self.item_path}/edit")(self.change)
        return router

    def column(self, declared: str | Column) -> Column:
        """Return a column or fact; the fact of a field is shown only if the field has a value."""
        if isinstance(declared, Column):
            return declared
        return Column(self.shown[declared].label, drawn(declared), has(declared))

    def control(self, field: str) -> FormField:
        """Return the control of a field."""
        return control_of(BY_ITEM[self.kind.item], field, self.shown[field])

    def group(self, declared: FieldGroup) -> FieldGroup:
        """Return a group of a form with names of fields replaced by their controls."""
        fields = [self.control(each) if isinstance(each, str) else each for each in declared.fields]
        return replace(declared, fields=fields)

    def may(self, who: Identity, action: str, record: Record | None = None) -> bool:
        """Whether somebody may do this to a record; None: to a new one."""
        permission = f"{self.kind.permissions}.{action}"
        if record is None and self.kind.owner:
            return who.rights.anywhere(permission)
        return who.rights.may(permission, self.company_of(record))

    def require(self, visit: Visit, action: str, record: Record | None = None) -> None:
        """Require that the visitor may do this. Raises ContractError."""
        if not self.may(visit.who, action, record):
            visit.require(f"{self.kind.permissions}.{action}", self.company_of(record))

    def company_of(self, record: Record | None) -> int | None:
        """Return the company whose permissions apply; None if the record belongs to none."""
        return record.get("company_id") if record else None

    async def show_list(self, visit: CurrentVisit) -> Response:
        view, records = await self.read_list(visit)
        columns = [self.column(each) for each in self.columns]
        filters = [
            replace(each, choices=await each.choices(visit)) if callable(each.choices) else each
            for each in self.filters_of(visit)
        ]
        asked = visit.asked(*(each.name for each in filters))
        following = {**asked, "cursor": view.next_query["cursor"]} if view.next_query else None
        query = f"?{urlencode(asked)}" if asked else ""
        return visit.respond(
            self.list_template,
            Text(self.kind.many),
            columns=columns,
            rows=[[column.draw(each, visit) for column in columns] for each in records],
            filters=filters,
            asked=asked,
            empty=self.empty,
            actions=self.list_actions(visit),
            total=view.total,
            address=self.address,
            contract_href=f"{view.path}.html{query}",
            next_href=f"{self.address}?{urlencode(following)}" if following else None,
            first_href=f"{self.address}{query}" if "cursor" in visit.request.query_params else None,
            **await self.beside_list(visit, view, records),
        )

    async def read_list(self, visit: Visit) -> tuple[View, Sequence[Any]]:
        """Read a page of the list. Raises ContractError."""
        query = visit.asked(*(each.name for each in self.filters_of(visit)), "cursor")
        ordered = {"order": self.order} if self.order else {}
        view = await visit.read(
            f"/{self.kind.collection}", {**ordered, **query, "limit": self.page_length}
        )
        return view, list(view.data.values())

    def filters_of(self, _visit: Visit) -> Sequence[Filter]:
        """Return the filters of the list."""
        return self.filters

    async def beside_list(
        self, _visit: Visit, _view: View, _records: Sequence[Any]
    ) -> Mapping[str, Any]:
        """Return additional values for the list's own template."""
        return {}

    def list_actions(self, visit: Visit) -> list[Action]:
        """Return the actions above the list."""
        if not self.new or not self.may(visit.who, "create"):
            return []
        return [Action(self.new, f"{self.address}/new", is_main=True)]

    async def show_record(self, visit: CurrentVisit) -> Response:
        key = visit.request.path_params[self.parameter]
        record = await self.read(visit, key)
        facts = [self.column(each) for each in self.facts]
        return visit.respond(
            "records/record.html",
            self.title(record, visit),
            about=[draw(record, visit) for draw in self.about],
            badges=[draw(record, visit) for draw in self.badges],
            actions=self.actions(visit, record),
            facts=[
                (column.label, column.draw(record, visit))
                for column in facts
                if column.when is None or column.when(record)
            ],
            sections=[
                await self.section(visit, record, each)
                for each in self.tables_of(visit, record)
                if each.when(record)
            ],
            contract_href=self.contract_page(key),
            prefect_url=record.get("prefect_url"),
        )

    async def section(self, visit: Visit, record: Record, table: Table) -> Section:
        found = table.rows(record, visit)
        rows = await found if isawaitable(found) else found
        drawn_rows = [[column.draw(each, visit) for column in table.columns] for each in rows]
        return Section(table, drawn_rows, table.page(record))

    def contract_page(self, key: object) -> str:
        """Return the address of a record's page in the contract."""
        return f"{CONTRACT}/{self.kind.item}/{key}.html"

    async def read(self, visit: Visit, key: Any) -> Any:
        """Read a record, with everything else its page shows. Raises ContractError."""
        return await visit.get(f"/{self.kind.item}/{key}")

    def title(self, record: Record, visit: Visit) -> str:
        """Return the title of a record's page."""
        return name_of(record, visit.languages)

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return the actions of a record that the visitor may use."""
        if not self.may(visit.who, "update", record):
            return []
        return [Action(Text("Edit"), f"{self.address}/{record['id']}/edit", is_main=True)]

    def tables_of(self, _visit: Visit, _record: Record) -> Sequence[Table]:
        """Return the tables of a record's page."""
        return self.tables

    async def show_new_form(self, visit: CurrentVisit) -> Response:
        """Show the form of a new record, or the form that first asks what it depends on."""
        return respond_with_form(visit, await self.new_form(visit))

    async def make(self, visit: CurrentVisit, sent: SentForm) -> Response:
        """Create a record."""
        form = await self.new_form(visit)
        if form.method == "get":
            return respond_with_form(visit, form)
        return await save(visit, form, sent)

    async def show_form(self, visit: CurrentVisit) -> Response:
        return respond_with_form(visit, await self.edit_form(visit))

    async def change(self, visit: CurrentVisit, sent: SentForm) -> Response:
        return await save(visit, await self.edit_form(visit), sent)

    async def groups(self, _visit: Visit, _record: Record | None) -> Sequence[FieldGroup]:
        """Return the fields of the form of a record; None: of a new one."""
        return self.form

    def values(self, record: Record) -> Record:
        """Return a record's values as its form shows them."""
        return record

    def wholes(self, _record: Record | None) -> Sequence[WholeValue]:
        """Return the fields of a record that are sent as a whole; None: of a new one."""
        return ()

    async def new_form(self, visit: Visit) -> RecordForm:
        """Return the form of a new record. Raises ContractError."""
        self.require(visit, "create")
        return await self.form_of_new(visit)

    async def form_of_new(
        self, visit: Visit, reference: Mapping[str, Any] | None = None, record: Record | None = None
    ) -> RecordForm:
        """Return the form of a new record for a visitor who may create one.

        `reference` are members of its body that the query gives, `record` is what its fields depend
        on.
        """
        groups = [self.group(each) for each in await self.groups(visit, record)]
        if self.kind.owner and not reference:
            permission = f"{self.kind.permissions}.create"
            companies = await visit.permitted_companies(permission)
            if self.kind.owner == "shared" and visit.who.rights.may(permission, None):
                companies = [("", Text("shared")), *companies]
            owner = FormField("/company_id", Text("Company"), "choice", choices=companies)
            groups[0] = replace(groups[0], fields=[owner, *groups[0].fields])
        query = f"?{urlencode(reference)}" if reference else ""
        return RecordForm(
            title=self.new,
            action=f"{self.address}/new{query}",
            target=f"/{self.kind.item}/",
            kind=self.kind.item,
            groups=groups,
            values=values_of(fields_of(groups), None),
            wholes=self.wholes(None),
            fixed=reference or self.fixed,
            back=self.address,
            note=self.note,
        )

    async def chooser(
        self, visit: Visit, permission: str, title: str, other: Filter, values: Values
    ) -> RecordForm:
        """Return the form that first asks what the fields of a new record depend on.

        That is its company and the record that `other` selects.

        Raises:
            ContractError: the visitor has the permission in no company.
        """
        if not visit.who.rights.anywhere(permission):
            visit.require(permission, values["company_id"])
        companies = await visit.permitted_companies(permission)
        others = await other.choices(visit) if callable(other.choices) else ()
        fields = [
            FormField("company_id", Text("Company"), "choice", choices=companies),
            FormField(other.name, other.label, "choice", choices=others),
        ]
        return RecordForm(
            title=self.new,
            action=f"{self.address}/new",
            target="",
            kind=self.kind.item,
            groups=[FieldGroup(title, fields)],
            values=values,
            back=self.address,
            submit=Text("Continue"),
            method="get",
        )

    async def edit_form(self, visit: Visit) -> RecordForm:
        """Return the form of a record. Raises ContractError."""
        record = await visit.get(f"/{self.kind.item}/{visit.request.path_params[self.parameter]}")
        self.require(visit, "update", record)
        return await self.form_of(visit, record)

    def form_title(self, record: Record) -> Text:
        """Return the title of the form of a record."""
        return Text("Edit {name}", name=record[self.named])

    async def form_of(self, visit: Visit, record: Record) -> RecordForm:
        """Return the form of a record for a visitor who may change it."""
        groups = [self.group(each) for each in await self.groups(visit, record)]
        if not visit.who.rights.may(f"{self.kind.permissions}.update", None):
            hidden = {f"/{field}" for field in self.identity}
            groups = [
                replace(each, fields=[f for f in each.fields if f.pointer not in hidden])
                for each in groups
            ]
        address = f"{self.address}/{record['id']}"
        return RecordForm(
            title=self.form_title(record),
            action=f"{address}/edit",
            target=f"/{self.kind.item}/{record['id']}.json",
            kind=self.kind.item,
            groups=groups,
            values=values_of(fields_of(groups), self.values(record)),
            wholes=self.wholes(record),
            back=address,
        )
