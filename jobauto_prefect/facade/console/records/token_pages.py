"""A user's tokens: what programs sign in with. One is shown once, when it is issued."""

from fastapi import Response

from jobauto_prefect.console_addresses import CONSOLE, CONTRACT
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.contract import PASSWORD, ContractError
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.page_response import respond_in_console
from jobauto_prefect.facade.console.records.declared import Column, Record, heads, moment, rows
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
from jobauto_prefect.facade.console.records.pages import SHOWN_AGAIN, AnyCell
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.dates import parse_time
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.http import late_routes

TOKENS = f"{CONSOLE}/users/{{user:int}}/tokens"


def _state(token: Record, _view: View, visit: Visit) -> AnyCell:
    if token["revoked_at"]:
        return Cell("badge", visit.translate("revoked"))
    ends = parse_time(token["expires_at"])
    if ends is not None and ends <= visit.now:
        return Cell("badge", visit.translate("expired"))
    return Cell("badge", visit.translate("valid"), tone="good")


COLUMNS = (
    Column(Text("Token"), lambda token, *_: Cell("number", str(token["id"]))),
    Column(Text("Made"), moment("created_at")),
    Column(Text("Used last"), moment("last_used_at")),
    Column(Text("Counts until"), moment("expires_at")),
    Column(Text("State"), _state),
)
FORM = [
    FieldGroup(
        Text("A new token"),
        [
            FormField(
                "/days", Text("Days it counts"), "number", Text("Empty: until it is revoked.")
            ),
            FormField(PASSWORD, Text("Your present password"), "secret"),
        ],
    )
]

router = late_routes.router(include_in_schema=False)


@router.get(TOKENS)
async def show_tokens(user: int, visit: CurrentVisit) -> Response:
    """Show a user's tokens."""
    return await _respond(visit, user)


@router.post(TOKENS)
async def issue_token(user: int, visit: CurrentVisit, sent: SentForm) -> Response:
    """Issue a token, and show its text this once: no other page has it, and no cache."""
    if not _may(visit.who, user, "users.impersonate"):
        raise ContractError(403, "you may issue no token here; ask an administrator")
    fields = [field for field in fields_of(FORM) if field.pointer != PASSWORD]
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
    """Make a token worthless."""
    await visit.contract.write("DELETE", f"/user/{user}/token/{token}")
    return redirect_after(visit.request, f"{CONSOLE}/users/{user}/tokens", "revoked")


async def _respond(
    visit: Visit,
    user_id: int,
    *,
    text: str = "",
    sent: Form | None = None,
    error: ContractError | None = None,
) -> Response:
    user = (await visit.contract.read(f"/user/{user_id}")).data
    view = await visit.contract.read(f"/user/{user_id}/tokens")
    tokens = list(view.data.values())
    return respond_in_console(
        visit.request,
        visit.who,
        "records/tokens.html",
        visit.translate("Tokens of {login}", login=user["login"]),
        here="Users",
        status=error.status if error else 200,
        user=user,
        text=text,
        tokens=list(zip(tokens, rows(COLUMNS, tokens, view, visit), strict=True)),
        heads=heads(COLUMNS, visit),
        may_issue=_may(visit.who, user_id, "users.impersonate"),
        may_revoke=_may(visit.who, user_id, "users.update"),
        groups=draw_groups(FORM, {}, visit.translate, sent, error),
        apart=errors_apart(FORM, error),
        contract_href=f"{CONTRACT}/user/{user_id}/tokens.html",
    )


def _may(who: Identity, user_id: int, permission: str) -> bool:
    """Whether the visitor may do something with tokens: their own, or with this permission any."""
    if user_id == who.user_id:
        return who.rights.may("profile.update", None)
    return who.rights.may(permission, None)
