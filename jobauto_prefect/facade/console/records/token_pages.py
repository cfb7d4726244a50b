"""A user's tokens: what programs sign in with. One is shown once, when it is issued."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.contract import (
    PASSWORD,
    Contract,
    ContractError,
    CurrentContract,
)
from jobauto_prefect.facade.console.moments import CurrentTime
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.page_response import respond_in_console
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
from jobauto_prefect.facade.console.records.pages import (
    SHOWN_AGAIN,
    AnyCell,
    language_parts,
    moment_cell,
)
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.dates import parse_time
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import CONTRACT

TOKENS = f"{CONSOLE}/users/{{user:int}}/tokens"

Token = Mapping[str, Any]

router = late_routes.router(include_in_schema=False)


@router.get(TOKENS)
async def show_tokens(
    user: int, request: Request, contract: CurrentContract, now: CurrentTime
) -> Response:
    """Show a user's tokens."""
    return await _respond(request, contract, now, user)


@router.post(TOKENS)
async def issue_token(
    user: int, request: Request, contract: CurrentContract, sent: SentForm, now: CurrentTime
) -> Response:
    """Issue a token, and show its text this once: no other page has it, and no cache."""
    translate, _ = language_parts(request)
    if not _may(contract.who, user, "users.impersonate"):
        raise ContractError(403, "you may issue no token here; ask an administrator")
    fields = [field for field in fields_of(_fields(translate)) if field.pointer != PASSWORD]
    body, password = read_changes(fields, sent, {}), sent.get(PASSWORD, "")
    try:
        issued = await contract.write("POST", f"/user/{user}/tokens/", body, password=password)
    except ContractError as error:
        if error.status not in SHOWN_AGAIN:
            raise
        return await _respond(request, contract, now, user, sent=sent, error=error)
    return await _respond(request, contract, now, user, text=issued["token"])


@router.post(f"{TOKENS}/{{token:int}}/revoke")
async def revoke_token(
    user: int, token: int, request: Request, contract: CurrentContract
) -> Response:
    """Make a token worthless."""
    await contract.write("DELETE", f"/user/{user}/token/{token}")
    return redirect_after(request, f"{CONSOLE}/users/{user}/tokens", "revoked")


async def _respond(
    request: Request,
    contract: Contract,
    now: datetime,
    user_id: int,
    *,
    text: str = "",
    sent: Form | None = None,
    error: ContractError | None = None,
) -> Response:
    translate, _ = language_parts(request)
    user = (await contract.read(f"/user/{user_id}")).data
    tokens = (await contract.read(f"/user/{user_id}/tokens")).data
    groups = _fields(translate)
    return respond_in_console(
        request,
        contract.who,
        "records/tokens.html",
        translate("Tokens of {login}", login=user["login"]),
        here="Users",
        status=error.status if error else 200,
        user=user,
        text=text,
        tokens=[(token, _row(token, now, translate)) for token in tokens.values()],
        heads=[
            translate("Token"),
            translate("Made"),
            translate("Used last"),
            translate("Counts until"),
            translate("State"),
        ],
        may_issue=_may(contract.who, user_id, "users.impersonate"),
        may_revoke=_may(contract.who, user_id, "users.update"),
        groups=draw_groups(groups, {}, translate, sent, error),
        apart=errors_apart(groups, error),
        contract_href=f"{CONTRACT}/user/{user_id}/tokens.html",
    )


def _may(who: Identity, user_id: int, permission: str) -> bool:
    """Whether the visitor may do something with tokens: their own, or with this permission any."""
    if user_id == who.user_id:
        return who.rights.may("profile.update", None)
    return who.rights.may(permission, None)


def _fields(translate: Translator) -> list[FieldGroup]:
    days = FormField(
        "/days", translate("Days it counts"), "number", translate("Empty: until it is revoked.")
    )
    password = FormField(PASSWORD, translate("Your present password"), "secret")
    return [FieldGroup(translate("A new token"), [days, password])]


def _row(token: Token, now: datetime, translate: Translator) -> list[AnyCell]:
    return [
        Cell("number", str(token["id"])),
        *(
            moment_cell(token[name], now, translate)
            for name in ("created_at", "last_used_at", "expires_at")
        ),
        _state(token, now, translate),
    ]


def _state(token: Token, now: datetime, translate: Translator) -> Cell:
    if token["revoked_at"]:
        return Cell("badge", translate("revoked"))
    ends = parse_time(token["expires_at"])
    if ends is not None and ends <= now:
        return Cell("badge", translate("expired"))
    return Cell("badge", translate("valid"), tone="good")
