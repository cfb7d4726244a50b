"""Lists, records and forms: what their pages are made of, and how they are sent."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlencode
from uuid import uuid4

from fastapi import APIRouter, Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.definitions import pick_text
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.contract import (
    PASSWORD,
    Contract,
    ContractError,
)
from jobauto_prefect.facade.console.moments import teller
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.page_response import language_of, respond_in_console
from jobauto_prefect.facade.console.records.choices import Choices, read_choices
from jobauto_prefect.facade.console.records.forms import (
    SENT_FORM,
    FieldGroup,
    Form,
    SentForm,
    Values,
    WholeValue,
    draw_groups,
    errors_apart,
    fields_of,
    read_changes,
)
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell, clip
from jobauto_prefect.facade.formats.html.page_language import Translator, translator
from jobauto_prefect.facade.http.responses import languages_of

NOTHING = Cell("none", "\N{EN DASH}")


@dataclass(frozen=True, slots=True)
class Mark:
    """One of a strip; `note` is what it tells."""

    href: str
    tone: str
    note: str


@dataclass(frozen=True, slots=True)
class Strip:
    """A cell of marks, the newest last."""

    marks: Sequence[Mark]
    empty: str
    kind: Literal["strip"] = "strip"


AnyCell = Cell | Strip


@dataclass(frozen=True, slots=True)
class Action:
    """A link, or with `posts` a button that sends a form."""

    label: str
    href: str
    posts: bool = False
    is_main: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A table of a record's page; `empty` is said where there are no rows, `href` is all of it."""

    key: str
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[AnyCell]]
    empty: str
    href: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class RecordPage:
    """A record as its page shows it; `badges` stand beside its name.

    `contract_href` is the contract's own page, `prefect_url` Prefect's (None: there is none).
    """

    title: str
    about: Sequence[AnyCell]
    badges: Sequence[AnyCell]
    actions: Sequence[Action]
    facts: Sequence[tuple[str, AnyCell]]
    sections: Sequence[Section]
    contract_href: str
    prefect_url: str | None = None


def name_of(record: Mapping[str, Any], languages: Sequence[str]) -> str:
    """Return what a record is called, in the first language its name has."""
    translated = (record.get("translations") or {}).get("name")
    return pick_text(translated or record["name"], *languages)


def link(text: str, href: str) -> Cell:
    """Return a link with the name of a record."""
    return Cell("link", clip(text), href=href, title=text if clip(text) != text else "")


def text_cell(text: str) -> Cell:
    """Return a text; the dash where there is none."""
    return Cell("text", text) if text else NOTHING


def moment_cell(moment: datetime | str | None, now: datetime, translate: Translator) -> Cell:
    """Return a time as it is told from now, with the exact one as its title; None: the dash."""
    text = moment.isoformat() if isinstance(moment, datetime) else moment
    shown = teller(now, translate)(text)
    return Cell("time", shown.text, title=shown.at.isoformat()) if shown else NOTHING


def state_badge(record: Mapping[str, Any], translate: Translator) -> Cell:
    """Return whether a run template is active."""
    if record["active"]:
        return Cell("badge", translate("active"), tone="good")
    return Cell("badge", translate("paused"), tone="warn")


def enabled_badge(record: Mapping[str, Any], translate: Translator) -> Cell:
    """Return whether a company or an application may be used."""
    if record["enabled"]:
        return Cell("badge", translate("enabled"), tone="good")
    return Cell("badge", translate("switched off"), tone="warn")


PAGE = 50
"""Records of a list's page."""


KEY = "idempotency-key"
"""The control that says which sending of a form this is."""


SHOWN_AGAIN = frozenset({400, 403, 409, 412, 413, 422})
"""Refusals that somebody can mend in the form."""


@dataclass(frozen=True, slots=True)
class ListFilter:
    """A control that narrows a list; `choices` are what it offers, None: it takes any text."""

    name: str
    label: str
    choices: Choices | None = None


@dataclass(frozen=True, slots=True)
class ListPage:
    """A list; its `title` is the English text of its entry in the menu, where `here` is not.

    `empty` is said where there is nothing at all.
    """

    collection: str
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[AnyCell]]
    filters: Sequence[ListFilter]
    empty: str
    actions: Sequence[Action] = ()
    here: str = ""


@dataclass(frozen=True, slots=True)
class RecordForm:
    """A form that writes a record of a kind by the contract.

    `action` is where it is sent, `target` the contract's path, `back` where it leads without being
    sent. `values` are those the record has, `fixed` is what goes with each sending, `wholes` are
    the fields of which all goes along. `prefilled` are shown instead of the record's values,
    `offers` are what fields offer by these names.
    Afterwards comes the page of the record in its `collection`, which says `done`.
    `is_dangerous`: what it does can't be undone.
    """

    title: str
    here: str
    action: str
    target: str
    collection: str
    groups: Sequence[FieldGroup]
    values: Values
    back: str
    submit: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    prefilled: Values = field(default_factory=dict)
    wholes: Sequence[WholeValue] = ()
    offers: Mapping[str, Collection[str]] = field(default_factory=dict)
    facts: Sequence[tuple[str, AnyCell]] = ()
    note: str = ""
    done: str = "saved"
    is_dangerous: bool = False
    method: Literal["post", "get"] = "post"

    @property
    def takes_files(self) -> bool:
        """Whether one of its controls takes a file."""
        return any(control.kind == "picture" for control in fields_of(self.groups))

    @property
    def is_new(self) -> bool:
        """Whether it makes a record."""
        return self.target.endswith("/")


def require(who: Identity, permission: str, company_id: int | None) -> None:
    """Require the permission that sending a form will take: nobody fills in one in vain.

    Raises:
        ContractError: the visitor has it not.
    """
    if not who.rights.may(permission, company_id):
        raise ContractError(403, f"this needs the permission {permission}; ask an administrator")


def list_query(request: Request, names: Sequence[str]) -> dict[str, str]:
    """Return what a list is asked for: filters, place and a page's length."""
    query = request.query_params
    return {name: query[name] for name in (*names, "cursor") if query.get(name)}


async def read_list(contract: Contract, collection: str, query: Mapping[str, Any]) -> View:
    """Read a page of a list."""
    return await contract.read(f"/{collection}", {**query, "limit": PAGE})


async def company_filter(
    contract: Contract, languages: Sequence[str], translate: Translator
) -> ListFilter:
    """Return the filter of a list by company, of those that the visitor may see."""
    companies = await read_choices(contract, "companies", languages)
    return ListFilter("company_id", translate("Company"), companies)


def respond_with_list(
    request: Request,
    who: Identity,
    page: ListPage,
    view: View,
    *,
    total: int | None = None,
    template: str = "records/list.html",
    **more: Any,
) -> Response:
    """Send a list that the contract's `view` is of.

    `total` is how many records there are, where the view does not count them; `more` is what a
    template of the list's own shows besides.
    """
    address = f"{CONSOLE}/{page.collection}"
    names = [listed.name for listed in page.filters]
    asked = {name: request.query_params.get(name, "") for name in names}
    chosen = {name: value for name, value in asked.items() if value}
    following = {**chosen, "cursor": view.next_query["cursor"]} if view.next_query else None
    return respond_in_console(
        request,
        who,
        template,
        language_parts(request)[0](page.title),
        here=page.here or page.title,
        page=page,
        asked=asked,
        is_filtered=bool(chosen),
        total=view.total if total is None else total,
        address=address,
        contract_href=f"{view.path}.html?{urlencode(chosen)}" if chosen else f"{view.path}.html",
        next_href=f"{address}?{urlencode(following)}" if following else None,
        first_href=f"{address}?{urlencode(chosen)}" if "cursor" in request.query_params else None,
        **more,
    )


def respond_with_record(
    request: Request, who: Identity, page: RecordPage, *, here: str
) -> Response:
    """Send the page of a record."""
    return respond_in_console(request, who, "records/record.html", page.title, here=here, page=page)


def respond_with_form(
    request: Request,
    who: Identity,
    form: RecordForm,
    sent: Form | None = None,
    error: ContractError | None = None,
) -> Response:
    """Send a form, with what was typed and what is wrong where it was sent already."""
    kept = getattr(request.state, SENT_FORM, None)
    sent = sent or kept
    shown = {**form.values, **form.prefilled}
    return respond_in_console(
        request,
        who,
        "records/form.html",
        form.title,
        here=form.here,
        status=error.status if error else 200,
        form=form,
        groups=draw_groups(form.groups, shown, language_parts(request)[0], sent, error),
        apart=errors_apart(form.groups, error),
        is_refused=error is not None,
        is_kept=kept is not None,
        key=(sent.get(KEY) if sent else None) or str(uuid4()),
    )


async def save(
    request: Request, contract: Contract, form: RecordForm, sent: Form, **more: Any
) -> Response:
    """Write what a form says, and lead to its record's page; show it again where it is refused.

    A form that has the control `PASSWORD` is sent with the visitor's own. `more` is what the form's
    own controls said beside its fields.

    Raises:
        ContractError: the visitor may not do this.
    """
    try:
        fields = [each for each in fields_of(form.groups) if each.pointer != PASSWORD]
        changes = read_changes(fields, sent, form.values, form.wholes)
        body = {**form.fixed, **changes, **more}
        key, password = _key_of(form, sent, body), sent.get(PASSWORD)
        record = await contract.write(
            "POST", form.target, body, key=key, is_new=form.is_new, password=password
        )
    except ContractError as error:
        if error.status not in SHOWN_AGAIN:
            raise
        return respond_with_form(request, contract.who, form, sent, error)
    warnings = [fault["message"] for fault in record.get("warnings", ())]
    address = f"{CONSOLE}/{form.collection}/{record['id']}"
    return redirect_after(request, address, form.done, warnings)


def _key_of(form: RecordForm, sent: Form, body: Mapping[str, Any]) -> str:
    """Return the Idempotency-Key of a sending; "": to change a record needs none.

    A form that comes again as it was makes nothing more; with other values it is a new request.
    """
    if not form.is_new or not sent.get(KEY):
        return ""
    said = json.dumps([sent[KEY], body], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def add_form_routes(
    router: APIRouter,
    address: str,
    item: str,
    edit_form: Callable[[Visit, int], Awaitable[RecordForm]],
    new_form: Callable[[Visit], Awaitable[RecordForm]],
) -> None:
    """Add the routes of the forms that change a record and make a new one.

    They read the form when it is shown and when it is sent. `new_form` may return one that first
    asks what the other fields depend on.
    """

    async def show_new_form(visit: CurrentVisit) -> Response:
        return respond_with_form(visit.request, visit.who, await new_form(visit))

    async def make(visit: CurrentVisit, sent: SentForm) -> Response:
        form = await new_form(visit)
        if form.method == "get":
            return respond_with_form(visit.request, visit.who, form)
        return await save(visit.request, visit.contract, form, sent)

    async def show_form(visit: CurrentVisit) -> Response:
        form = await edit_form(visit, visit.request.path_params[item])
        return respond_with_form(visit.request, visit.who, form)

    async def change(visit: CurrentVisit, sent: SentForm) -> Response:
        form = await edit_form(visit, visit.request.path_params[item])
        return await save(visit.request, visit.contract, form, sent)

    router.get(f"{address}/new")(show_new_form)
    router.post(f"{address}/new")(make)
    router.get(f"{address}/{{{item}:int}}/edit")(show_form)
    router.post(f"{address}/{{{item}:int}}/edit")(change)


def query_ids(request: Request, *names: str) -> dict[str, int]:
    """Return the ids that the query of a form for a new record gives, by these names."""
    given = {name: request.query_params.get(name, "") for name in names}
    return {name: int(text) for name, text in given.items() if text.isascii() and text.isdecimal()}


def language_parts(request: Request) -> tuple[Translator, Sequence[str]]:
    """Return the translator of a request's pages, and the languages for texts in several."""
    return translator(language_of(request)), languages_of(request)
