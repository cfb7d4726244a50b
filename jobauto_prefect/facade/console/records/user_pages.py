"""Users: who may sign in, with which roles; and what everybody may change of themselves."""

from collections.abc import Sequence
from dataclasses import replace

from fastapi import Response
from starlette.concurrency import run_in_threadpool

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.auth.permissions import ROLE_DESCRIPTIONS, Membership, Role
from jobauto_prefect.facade.console.contract import PASSWORD, ContractError
from jobauto_prefect.facade.console.records.declared import (
    BY_STATE,
    ENABLED,
    Column,
    Narrowing,
    Part,
    Record,
    RecordPages,
    code,
    enabled,
    moment,
    text,
)
from jobauto_prefect.facade.console.records.forms import FieldGroup, FormField, SentForm
from jobauto_prefect.facade.console.records.member_pages import (
    CHANGE,
    ROLES,
    member_address,
)
from jobauto_prefect.facade.console.records.pages import (
    Action,
    AnyCell,
    RecordForm,
    link,
    respond_with_form,
    save,
    text_cell,
)
from jobauto_prefect.facade.console.sign_in_page import begin_session
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger.queries.companies import memberships_of

ADDRESS = f"{CONSOLE}/users"
OWN_PASSWORD = f"{ADDRESS}/{{user:int}}/password"

PERSON = FieldGroup(
    Text("Person"),
    [
        FormField("/firstname", Text("First name")),
        FormField("/lastname", Text("Last name")),
        FormField("/email", Text("Mail")),
    ],
)
ACCOUNT = FieldGroup(
    Text("Account"),
    [
        FormField("/login", Text("Login"), is_required=True),
        FormField("/enabled", Text("may sign in"), "flag", default=True),
    ],
)


def _name(user: Record, _view: View, _visit: Visit) -> AnyCell:
    return text_cell(" ".join(part for part in (user["firstname"], user["lastname"]) if part))


class UserPages(RecordPages):
    """The pages of users; who may not read them sees themselves."""

    kind, here, new, named = KINDS["user"], "Users", Text("New user"), "login"
    columns = (
        Column(Text("Login"), lambda user, *_: link(user["login"], f"{ADDRESS}/{user['id']}")),
        Column(Text("Name"), _name),
        Column(Text("Mail"), text("email")),
        Column(Text("Roles"), text("roles")),
        ENABLED,
    )
    filters = (Narrowing("login", Text("Login")), BY_STATE)
    empty = Text("There is nobody yet.")
    about = (_name,)
    badges = (enabled,)
    facts = (
        Column(Text("Mail"), text("email")),
        Column(Text("Added"), moment("created_at")),
    )
    tables = (
        Part(
            "roles",
            Text("Roles"),
            lambda user, _: user["held"],
            (
                Column(Text("Role"), code("name")),
                Column(
                    Text("What it is for"),
                    lambda role, _, visit: text_cell(visit.translate(role["description"])),
                ),
                Column(Text("Given by"), text("assigned_by")),
                Column(Text("Until"), moment("expires_at")),
            ),
            Text("No role: the account may do what its companies' roles allow."),
        ),
        Part(
            "companies",
            Text("Companies"),
            lambda user, visit: (
                (number, name, role)
                for number, name, role in user["companies"]
                if visit.who.rights.may_read("companies", number)
            ),
            (
                Column(
                    Text("Company"),
                    lambda held, *_: link(held[1], f"{CONSOLE}/companies/{held[0]}"),
                ),
                Column(
                    Text("Role"),
                    lambda held, _, visit: text_cell(visit.translate(ROLES[Membership(held[2])])),
                ),
            ),
            Text("In no company: only the roles admin and super_admin hold without one."),
        ),
    )

    def may(self, who: Identity, action: str, record: Record | None = None) -> bool:
        """Whether somebody may do this to users; everybody may change themselves."""
        is_own = record is not None and record["id"] == who.user_id
        return (is_own and who.rights.may("profile.update", None)) or super().may(
            who, action, record
        )

    async def read(self, visit: Visit, number: int) -> View:
        """Read a user, with roles and companies."""
        view = await super().read(visit, number)
        roles = (await visit.contract.read(f"/user/{number}/roles")).data
        service = visit.request.app.state.service
        companies = await run_in_threadpool(_read_companies, service, number)
        return replace(view, data={**view.data, "held": roles.values(), "companies": companies})

    def title(self, record: Record, _visit: Visit) -> str:
        """Return the login."""
        return str(record["login"])

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return what the visitor may do to a user."""
        translate, address = visit.translate, f"{self.address}/{record['id']}"
        actions = super().actions(visit, record)
        if actions and record["id"] == visit.who.user_id:
            actions.append(Action(translate("Change password"), f"{address}/password"))
        if visit.who.rights.anywhere(CHANGE):
            href = member_address(user_id=record["id"])
            actions.append(Action(translate("Add to a company"), href))
        return [*actions, Action(translate("Tokens"), f"{address}/tokens")]

    async def groups(self, visit: Visit, record: Record | None) -> Sequence[FieldGroup]:
        """Return the fields that the visitor may write: of themselves fewer than of others."""
        rights, person, account = visit.who.rights, list(PERSON.fields), list(ACCOUNT.fields)
        if record is None or record["id"] != visit.who.user_id:
            hint = Text("Empty: it stays as it is.") if record else ""
            person.append(FormField("/password", Text("Password"), "secret", hint))
        groups = [replace(PERSON, fields=person)]
        if not rights.may("users.update", None):
            return groups
        if rights.may("roles.assign", None):
            account.append(
                FormField(
                    "/roles",
                    Text("Roles"),
                    "choices",
                    Text("editor, user and viewer hold only in the companies of the user."),
                    choices=[
                        (role, f"{role}: {visit.translate(ROLE_DESCRIPTIONS[role])}")
                        for role in Role
                    ],
                    default=[],
                )
            )
        return [replace(ACCOUNT, fields=account), *groups]


def _read_companies(service: Service, user_id: int) -> list[tuple[int, str, str]]:
    """Return id and name of each company of a user, and the role there."""
    with service.ledger.reading() as session:
        held = memberships_of(session, user_id)
        return [(company.id, company.name, role) for company, role in held]


router = UserPages().router()


@router.get(OWN_PASSWORD)
async def show_password_form(user: int, visit: CurrentVisit) -> Response:
    """Show the form in which a visitor changes their own password."""
    return respond_with_form(visit.request, visit.who, _password_form(visit, user))


@router.post(OWN_PASSWORD)
async def change_password(
    user: int, visit: CurrentVisit, sent: SentForm, service: CurrentService
) -> Response:
    """Change the visitor's own password. It ends their sessions: this browser gets a new one."""
    who, request = visit.who, visit.request
    response = await save(request, visit.contract, _password_form(visit, user), sent)
    if response.status_code == 303 and who.in_session:
        new = sent.get("/password", "")
        await run_in_threadpool(begin_session, service, request, response, who.actor.name, new)
    return response


def _password_form(visit: Visit, user_id: int) -> RecordForm:
    if user_id != visit.who.user_id:
        raise ContractError(403, "this is for one's own password; edit the user instead")
    fields = [
        FormField(PASSWORD, Text("Your present password"), "secret"),
        FormField("/password", Text("New password"), "secret"),
    ]
    return RecordForm(
        title=visit.translate("Change password"),
        here="Users",
        action=f"{ADDRESS}/{user_id}/password",
        target=f"/user/{user_id}.json",
        collection="users",
        groups=[FieldGroup(Text("Password"), fields)],
        values={},
        back=f"{ADDRESS}/{user_id}",
        submit=visit.translate("Save"),
        fixed={"password": ""},
        note=visit.translate(
            "All your sessions end, and the tokens of sign-ins; this browser goes on."
        ),
    )
