"""Users: accounts and their roles, the visitor's own account, and tokens.

Programs sign in with a token. It is shown once, when it is issued.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Response
from starlette.concurrency import run_in_threadpool

from jobauto_prefect.console_addresses import CONTRACT, list_address
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.auth.permissions import ROLE_DESCRIPTIONS, Role
from jobauto_prefect.facade.console.contract import PASSWORD, ContractError
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.cells import (
    ENABLED,
    AnyCell,
    Column,
    Record,
    code,
    enabled,
    link_to,
    moment,
    number,
    text,
    text_cell,
)
from jobauto_prefect.facade.console.records.forms import (
    FieldGroup,
    Form,
    FormField,
    SentForm,
    draw_groups,
    errors_apart,
    fields_of,
    read_changes,
)
from jobauto_prefect.facade.console.records.members import CHANGE, member_address, role
from jobauto_prefect.facade.console.records.pages import (
    BY_STATE,
    SHOWN_AGAIN,
    Action,
    Filter,
    RecordForm,
    RecordPages,
    Table,
    respond_with_form,
    save,
)
from jobauto_prefect.facade.console.sign_in_page import begin_session
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit
from jobauto_prefect.facade.formats.html.cells import Cell
from jobauto_prefect.facade.formats.html.dates import parse_time
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger.queries.companies import memberships_of

ADDRESS = list_address("user")
OWN_PASSWORD = f"{ADDRESS}/{{user:int}}/password"
TOKENS = f"{ADDRESS}/{{user:int}}/tokens"
PRESENT_PASSWORD = FormField(PASSWORD, Text("Your current password"), "secret")


def _name(user: Record, _visit: Visit) -> AnyCell:
    return text_cell(" ".join(part for part in (user["firstname"], user["lastname"]) if part))


class UserPages(RecordPages):
    """The pages of users; visitors without the permission to read them see only themselves."""

    kind, new, named = KINDS["user"], Text("New user"), "login"
    columns = (
        Column(Text("Login"), lambda user, _: link_to("user", user["id"], user["login"])),
        Column(Text("Name"), _name),
        "email",
        Column(Text("Roles"), text("roles")),
        ENABLED,
    )
    filters = (Filter("login", Text("Login")), BY_STATE)
    empty = Text("There are no users yet.")
    about = (_name,)
    badges = (enabled,)
    facts = (
        Column(Text("Mail"), text("email")),
        Column(Text("Added"), moment("created_at")),
    )
    tables = (
        Table(
            "roles",
            Text("Roles"),
            lambda user, _: user["held"],
            (
                Column(Text("Role"), code("name")),
                Column(
                    Text("Purpose"),
                    lambda role, visit: text_cell(visit.translate(role["description"])),
                ),
                Column(Text("Assigned by"), text("assigned_by")),
                Column(Text("Until"), moment("expires_at")),
            ),
            Text("Without a role, the account may do what its roles in companies allow."),
        ),
        Table(
            "companies",
            Text("Companies"),
            lambda user, visit: _read_companies(visit, user["id"]),
            (
                Column(
                    Text("Company"), lambda held, _: link_to("company", held["id"], held["name"])
                ),
                Column(Text("Role"), role),
            ),
            Text(
                "The user belongs to no company. Without one, only the roles admin and "
                "super_admin have an effect."
            ),
        ),
    )

    def may(self, who: Identity, action: str, record: Record | None = None) -> bool:
        """Whether somebody may do this to users; all users may change their own account."""
        is_own = record is not None and record["id"] == who.user_id
        return (is_own and who.rights.may("profile.update", None)) or super().may(
            who, action, record
        )

    async def read(self, visit: Visit, key: Any) -> Record:
        """Read a user, with roles."""
        roles = await visit.get(f"/user/{key}/roles")
        return {**await super().read(visit, key), "held": roles.values()}

    def title(self, record: Record, _visit: Visit) -> str:
        return str(record["login"])

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        address = f"{self.address}/{record['id']}"
        actions = super().actions(visit, record)
        if actions and record["id"] == visit.who.user_id:
            actions.append(Action(Text("Change password"), f"{address}/password"))
        if visit.who.rights.anywhere(CHANGE):
            actions.append(Action(Text("Add to a company"), member_address(user_id=record["id"])))
        return [*actions, Action(Text("Tokens"), f"{address}/tokens")]

    async def groups(self, visit: Visit, record: Record | None) -> Sequence[FieldGroup]:
        """Return the fields that the visitor may write: fewer for their own account."""
        rights = visit.who.rights
        person: list[str | FormField] = ["firstname", "lastname", "email"]
        account: list[str | FormField] = ["login", "enabled"]
        if record is None or record["id"] != visit.who.user_id:
            hint = Text("Leave empty to keep the password.") if record else ""
            person.append(FormField("/password", Text("Password"), "secret", hint))
        groups = [FieldGroup(Text("Person"), person)]
        if not rights.may("users.update", None):
            return groups
        if rights.may("roles.assign", None):
            account.append(
                FormField(
                    "/roles",
                    Text("Roles"),
                    "choices",
                    Text("editor, user and viewer apply only in the user's companies."),
                    choices=[
                        (role, f"{role}: {visit.translate(ROLE_DESCRIPTIONS[role])}")
                        for role in Role
                    ],
                    default=[],
                )
            )
        return [FieldGroup(Text("Account"), account), *groups]


async def _read_companies(visit: Visit, user_id: int) -> list[Mapping[str, Any]]:
    """Return the companies of a user that the visitor may see, with the user's role in each."""
    return await visit.query(
        lambda session: [
            {"id": company.id, "name": company.name, "role": role}
            for company, role in memberships_of(session, user_id)
            if visit.who.rights.may_read("companies", company.id)
        ]
    )


router = UserPages().router()


@router.get(OWN_PASSWORD)
async def show_password_form(user: int, visit: CurrentVisit) -> Response:
    """Show the form that changes the visitor's own password."""
    return respond_with_form(visit, _password_form(visit, user))


@router.post(OWN_PASSWORD)
async def change_password(
    user: int, visit: CurrentVisit, sent: SentForm, service: CurrentService
) -> Response:
    """Change the visitor's own password. That ends their sessions; this browser gets a new one."""
    who, request = visit.who, visit.request
    response = await save(visit, _password_form(visit, user), sent)
    if response.status_code == 303 and who.in_session:
        new = sent.get("/password", "")
        await run_in_threadpool(begin_session, service, request, response, who.actor.name, new)
    return response


def _password_form(visit: Visit, user_id: int) -> RecordForm:
    if user_id != visit.who.user_id:
        raise ContractError(
            403, "you can change only your own password here; edit the user instead"
        )
    new = FormField("/password", Text("New password"), "secret")
    return RecordForm(
        title=Text("Change password"),
        action=f"{ADDRESS}/{user_id}/password",
        target=f"/user/{user_id}.json",
        kind="user",
        groups=[FieldGroup(Text("Password"), [PRESENT_PASSWORD, new])],
        values={},
        back=f"{ADDRESS}/{user_id}",
        fixed={"password": ""},
        note=Text(
            "This ends all your sessions and revokes the tokens of your logins. You "
            "stay signed in here."
        ),
    )


def _token_state(token: Record, visit: Visit) -> AnyCell:
    if token["revoked_at"]:
        return Cell("badge", visit.translate("revoked"))
    ends = parse_time(token["expires_at"])
    if ends is not None and ends <= visit.now:
        return Cell("badge", visit.translate("expired"))
    return Cell("badge", visit.translate("valid"), tone="good")


TOKEN_COLUMNS = (
    Column(Text("Token"), number("id")),
    Column(Text("Created"), moment("created_at")),
    Column(Text("Last used"), moment("last_used_at")),
    Column(Text("Expires"), moment("expires_at")),
    Column(Text("State"), _token_state),
)
TOKEN_FORM = [
    FieldGroup(
        Text("New token"),
        [
            FormField(
                "/days",
                Text("Lifetime in days"),
                "number",
                Text("Leave empty for a token that never expires."),
            ),
            PRESENT_PASSWORD,
        ],
    )
]


@router.get(TOKENS)
async def show_tokens(user: int, visit: CurrentVisit) -> Response:
    return await _respond(visit, user)


@router.post(TOKENS)
async def issue_token(user: int, visit: CurrentVisit, sent: SentForm) -> Response:
    """Issue a token and show its text once: in this answer only, which is not cached."""
    if not _may(visit.who, user, "users.impersonate"):
        raise ContractError(403, "you may not issue tokens for this user; ask an administrator")
    fields = [field for field in fields_of(TOKEN_FORM) if field.pointer != PASSWORD]
    body, password = read_changes(fields, sent, {}), sent.get(PASSWORD, "")
    path = f"/user/{user}/tokens/"
    try:
        issued = await visit.contract.write("POST", path, body, password=password)
    except ContractError as error:
        if error.status not in SHOWN_AGAIN:
            raise
        return await _respond(visit, user, sent=sent, error=error)
    return await _respond(visit, user, text=issued["token"])


@router.post(f"{TOKENS}/{{token:int}}/revoke")
async def revoke_token(user: int, token: int, visit: CurrentVisit) -> Response:
    """Revoke a token."""
    await visit.contract.write("DELETE", f"/user/{user}/token/{token}")
    return redirect_after(visit.request, f"{ADDRESS}/{user}/tokens", "revoked")


async def _respond(
    visit: Visit,
    user_id: int,
    *,
    text: str = "",
    sent: Form | None = None,
    error: ContractError | None = None,
) -> Response:
    user = await visit.get(f"/user/{user_id}")
    tokens = list((await visit.get(f"/user/{user_id}/tokens")).values())
    rows = [[column.draw(each, visit) for column in TOKEN_COLUMNS] for each in tokens]
    return visit.respond(
        "records/tokens.html",
        Text("Tokens of {login}", login=user["login"]),
        status=error.status if error else 200,
        user=user,
        text=text,
        tokens=list(zip(tokens, rows, strict=True)),
        columns=TOKEN_COLUMNS,
        may_issue=_may(visit.who, user_id, "users.impersonate"),
        may_revoke=_may(visit.who, user_id, "users.update"),
        groups=draw_groups(TOKEN_FORM, {}, sent, error),
        apart=errors_apart(TOKEN_FORM, error),
        contract_href=f"{CONTRACT}/user/{user_id}/tokens.html",
    )


def _may(who: Identity, user_id: int, permission: str) -> bool:
    """Whether the visitor may manage a user's tokens: their own, or with this permission any."""
    if user_id == who.user_id:
        return who.rights.may("profile.update", None)
    return who.rights.may(permission, None)
