"""Users: who may sign in, with which roles; and what everybody may change of themselves."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.auth.permissions import ROLE_DESCRIPTIONS, Membership, Role
from jobauto_prefect.facade.console.contract import (
    PASSWORD,
    Contract,
    ContractError,
    CurrentContract,
)
from jobauto_prefect.facade.console.forms import SentForm
from jobauto_prefect.facade.console.records.form_fields import (
    FieldGroup,
    FormField,
    fields_of,
    values_of,
)
from jobauto_prefect.facade.console.records.member_pages import (
    CHANGE,
    ROLES,
    member_address,
)
from jobauto_prefect.facade.console.records.page_parts import (
    Action,
    AnyCell,
    RecordPage,
    Section,
    enabled_badge,
    link,
    moment_cell,
    text_cell,
)
from jobauto_prefect.facade.console.records.record_views import (
    ListFilter,
    ListPage,
    RecordForm,
    add_form_routes,
    language_parts,
    list_query,
    read_list,
    require,
    respond_with_form,
    respond_with_list,
    respond_with_record,
    save,
)
from jobauto_prefect.facade.console.sign_in_page import begin_session
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import CONTRACT
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger.queries.companies import memberships_of

ADDRESS = f"{CONSOLE}/users"
OWN_PASSWORD = f"{ADDRESS}/{{user:int}}/password"
FILTERS = ("login", "enabled")

User = Mapping[str, Any]

router = late_routes.router(include_in_schema=False)


@router.get(ADDRESS)
async def list_users(request: Request, contract: CurrentContract) -> Response:
    """List users; who may not read them sees themselves."""
    translate, _ = language_parts(request)
    view = await read_list(contract, "users", list_query(request, FILTERS))
    new = Action(translate("New user"), f"{ADDRESS}/new", is_main=True)
    page = ListPage(
        collection="users",
        title="Users",
        heads=[
            translate("Login"),
            translate("Name"),
            translate("Mail"),
            translate("Roles"),
            translate("State"),
        ],
        rows=[_row(user, translate) for user in view.data.values()],
        filters=[
            ListFilter("login", translate("Login")),
            ListFilter(
                "enabled",
                translate("State"),
                [("true", translate("enabled")), ("false", translate("switched off"))],
            ),
        ],
        empty=translate("There is nobody yet."),
        actions=[new] if contract.who.rights.may("users.create", None) else [],
    )
    return respond_with_list(request, contract.who, page, view)


@router.get(f"{ADDRESS}/{{user:int}}")
async def show_user(
    user: int, request: Request, contract: CurrentContract, service: CurrentService
) -> Response:
    """Show a user with roles."""
    translate, _ = language_parts(request)
    shown = (await contract.read(f"/user/{user}")).data
    roles = (await contract.read(f"/user/{user}/roles")).data
    now = service.ledger.clock()
    companies = await run_in_threadpool(_read_companies, service, user)
    page = RecordPage(
        title=shown["login"],
        about=[text_cell(_name(shown))] if _name(shown) else [],
        badges=[enabled_badge(shown, translate)],
        actions=list(_actions(contract.who, shown, translate)),
        facts=list(_facts(shown, now, translate)),
        sections=[
            Section(
                "roles",
                translate("Roles"),
                [
                    translate("Role"),
                    translate("What it is for"),
                    translate("Given by"),
                    translate("Until"),
                ],
                [_role(role, now, translate) for role in roles.values()],
                translate("No role: the account may do what its companies' roles allow."),
            ),
            _companies(contract.who, companies, translate),
        ],
        contract_href=f"{CONTRACT}/user/{user}.html",
    )
    return respond_with_record(request, contract.who, page, here="Users")


def _read_companies(service: CurrentService, user_id: int) -> list[tuple[int, str, str]]:
    """Return id and name of each company of a user, and the role there."""
    with service.ledger.reading() as session:
        held = memberships_of(session, user_id)
        return [(company.id, company.name, role) for company, role in held]


def _companies(
    who: Identity, companies: Sequence[tuple[int, str, str]], translate: Translator
) -> Section:
    return Section(
        "companies",
        translate("Companies"),
        [translate("Company"), translate("Role")],
        [
            [
                link(name, f"{CONSOLE}/companies/{company_id}"),
                text_cell(translate(ROLES[Membership(role)])),
            ]
            for company_id, name, role in companies
            if who.rights.may_read("companies", company_id)
        ],
        translate("In no company: only the roles admin and super_admin hold without one."),
    )


def _row(user: User, translate: Translator) -> list[AnyCell]:
    return [
        link(user["login"], f"{ADDRESS}/{user['id']}"),
        text_cell(_name(user)),
        text_cell(user["email"] or ""),
        text_cell(", ".join(user["roles"])),
        enabled_badge(user, translate),
    ]


def _name(user: User) -> str:
    return " ".join(part for part in (user["firstname"], user["lastname"]) if part)


def _may_edit(who: Identity, user: User) -> bool:
    is_own = user["id"] == who.user_id and who.rights.may("profile.update", None)
    return is_own or who.rights.may("users.update", None)


def _actions(who: Identity, user: User, translate: Translator) -> Iterator[Action]:
    address = f"{ADDRESS}/{user['id']}"
    if _may_edit(who, user):
        yield Action(translate("Edit"), f"{address}/edit", is_main=True)
    if user["id"] == who.user_id and _may_edit(who, user):
        yield Action(translate("Change password"), f"{address}/password")
    if who.rights.anywhere(CHANGE):
        yield Action(translate("Add to a company"), member_address(user_id=user["id"]))
    yield Action(translate("Tokens"), f"{address}/tokens")


def _facts(user: User, now: datetime, translate: Translator) -> Iterator[tuple[str, AnyCell]]:
    yield translate("Mail"), text_cell(user["email"] or "")
    yield translate("Added"), moment_cell(user["created_at"], now, translate)


def _role(role: Mapping[str, Any], now: datetime, translate: Translator) -> list[AnyCell]:
    return [
        Cell("code", role["name"]),
        text_cell(translate(role["description"])),
        text_cell(role["assigned_by"] or ""),
        moment_cell(role["expires_at"], now, translate),
    ]


async def _new_form(request: Request, contract: Contract) -> RecordForm:
    translate, _ = language_parts(request)
    require(contract.who, "users.create", None)
    groups = _groups(contract.who, translate, _password(translate))
    return RecordForm(
        title=translate("New user"),
        here="Users",
        action=f"{ADDRESS}/new",
        target="/user/",
        collection="users",
        groups=groups,
        values=values_of(fields_of(groups), None),
        back=ADDRESS,
        submit=translate("Save"),
    )


async def _edit_form(request: Request, contract: Contract, user_id: int) -> RecordForm:
    translate, _ = language_parts(request)
    user = (await contract.read(f"/user/{user_id}")).data
    if not _may_edit(contract.who, user):
        require(contract.who, "users.update", None)
    hint = translate("Empty: it stays as it is.")
    password = [] if user_id == contract.who.user_id else _password(translate, hint)
    groups = _groups(contract.who, translate, password)
    return RecordForm(
        title=translate("Edit {name}", name=user["login"]),
        here="Users",
        action=f"{ADDRESS}/{user_id}/edit",
        target=f"/user/{user_id}.json",
        collection="users",
        groups=groups,
        values=values_of(fields_of(groups), user),
        back=f"{ADDRESS}/{user_id}",
        submit=translate("Save"),
    )


def _password(translate: Translator, hint: str = "") -> list[FormField]:
    return [FormField("/password", translate("Password"), "secret", hint)]


def _groups(
    who: Identity, translate: Translator, password: Sequence[FormField]
) -> list[FieldGroup]:
    """Return the fields that the visitor may write: of themselves fewer than of others."""
    person = [
        FormField("/firstname", translate("First name")),
        FormField("/lastname", translate("Last name")),
        FormField("/email", translate("Mail")),
        *password,
    ]
    if not who.rights.may("users.update", None):
        return [FieldGroup(translate("Person"), person)]
    account = [
        FormField("/login", translate("Login"), is_required=True),
        FormField("/enabled", translate("may sign in"), "flag", default=True),
    ]
    roles = FormField(
        "/roles",
        translate("Roles"),
        "choices",
        translate("editor, user and viewer hold only in the companies of the user."),
        choices=[(role, f"{role}: {translate(ROLE_DESCRIPTIONS[role])}") for role in Role],
        default=[],
    )
    rights = [roles] if who.rights.may("roles.assign", None) else []
    return [
        FieldGroup(translate("Account"), [*account, *rights]),
        FieldGroup(translate("Person"), person),
    ]


@router.get(OWN_PASSWORD)
async def show_password_form(user: int, request: Request, contract: CurrentContract) -> Response:
    """Show the form in which a visitor changes their own password."""
    return respond_with_form(request, contract.who, _password_form(request, contract.who, user))


@router.post(OWN_PASSWORD)
async def change_password(
    user: int, request: Request, contract: CurrentContract, sent: SentForm, service: CurrentService
) -> Response:
    """Change the visitor's own password. It ends their sessions: this browser gets a new one."""
    who = contract.who
    response = await save(request, contract, _password_form(request, who, user), sent)
    if response.status_code == 303 and who.in_session:
        new = sent.get("/password", "")
        await run_in_threadpool(begin_session, service, request, response, who.actor.name, new)
    return response


def _password_form(request: Request, who: Identity, user_id: int) -> RecordForm:
    translate, _ = language_parts(request)
    if user_id != who.user_id:
        raise ContractError(403, "this is for one's own password; edit the user instead")
    fields = [
        FormField(PASSWORD, translate("Your present password"), "secret"),
        FormField("/password", translate("New password"), "secret"),
    ]
    return RecordForm(
        title=translate("Change password"),
        here="Users",
        action=f"{ADDRESS}/{user_id}/password",
        target=f"/user/{user_id}.json",
        collection="users",
        groups=[FieldGroup(translate("Password"), fields)],
        values={},
        back=f"{ADDRESS}/{user_id}",
        submit=translate("Save"),
        fixed={"password": ""},
        note=translate("All your sessions end, and the tokens of sign-ins; this browser goes on."),
    )


add_form_routes(router, ADDRESS, "user", _edit_form, _new_form)
