"""Memberships: which users belong to which companies, with a form to add, change or remove one.

The form names a user by the login, so it needs no permission to read users.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Response

from jobauto_prefect.console_addresses import CONSOLE, list_address, page_of
from jobauto_prefect.facade.auth.permissions import Membership
from jobauto_prefect.facade.console.contract import ContractError
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.cells import Column, link, link_to, text_cell
from jobauto_prefect.facade.console.records.forms import (
    FieldGroup,
    FormField,
    SentForm,
    refuse,
)
from jobauto_prefect.facade.console.records.pages import (
    SHOWN_AGAIN,
    Action,
    RecordForm,
    Table,
    respond_with_form,
)
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit
from jobauto_prefect.facade.formats.html.cells import Cell
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.kinds import KINDS

ADDRESS = f"{CONSOLE}/members"
CHANGE = "members.update"
ROLES: Mapping[Membership, Text] = {
    Membership.VIEWER: Text("viewer: can read"),
    Membership.MANAGER: Text("manager: can change and run existing records"),
    Membership.ADMIN: Text("admin: can do everything in the company"),
}

router = late_routes.router(include_in_schema=False)


def member_address(**query: int) -> str:
    """Return the address of the form for a company or user."""
    return f"{ADDRESS}?{urlencode(query)}"


def role(member: Any, visit: Visit) -> Cell:
    """Draw the role of a member."""
    return text_cell(visit.translate(ROLES[Membership(member["role"])]))


def members_table(visit: Visit, company_id: int) -> Table:
    """Return the table of a company's members; visitors who may change them get links."""

    async def read(_company: Any, visit: Visit) -> list[Any]:
        members = await visit.get(f"/company/{company_id}/users")
        return [{**member, "user_id": int(number)} for number, member in members.items()]

    def change(member: Any, visit: Visit) -> Cell:
        href = member_address(company_id=company_id, user_id=member["user_id"])
        return link(visit.translate("Change"), href)

    changing = [Column(Text("Membership"), change)] if add_action(visit, company_id) else []
    return Table(
        "members",
        Text("Members"),
        read,
        (
            Column(
                Text("User"),
                lambda member, _: link_to("user", member["user_id"], member["login"] or ""),
            ),
            Column(Text("Role"), role),
            *changing,
        ),
        Text("No members. Only administrators see this company."),
    )


def add_action(visit: Visit, company_id: int) -> list[Action]:
    """Return the link to the form if the visitor may change the members of a company."""
    if not visit.who.rights.may(CHANGE, company_id):
        return []
    return [Action(Text("Add member"), member_address(company_id=company_id))]


@router.get(ADDRESS)
async def show_form(visit: CurrentVisit) -> Response:
    """Show the form, filled in with the company and the user of the address."""
    return respond_with_form(visit, await _read_form(visit))


@router.post(ADDRESS)
async def save_member(visit: CurrentVisit, sent: SentForm) -> Response:
    """Add, change or remove a membership and redirect to the company or the user."""
    form = await _read_form(visit)
    company, login, role = (
        sent.get(name, "").strip() for name in ("/company_id", "/user_id", "/role")
    )
    members = f"/company/{quote(company, safe='')}/user"
    try:
        for name, given in (("/company_id", company), ("/user_id", login)):
            if not given:
                raise refuse(name, "choose one")
        if role:
            body = {"user_id": login, "role": role}
            await visit.contract.write("POST", f"{members}/", body)
        else:
            await visit.contract.write("DELETE", f"{members}/{quote(login, safe='')}")
    except ContractError as error:
        if error.status == 404:  # an unknown company or user is an error in the form
            error = ContractError(400, str(error))
        if error.status not in SHOWN_AGAIN:
            raise error from None
        return respond_with_form(visit, form, sent, error)
    back = page_of("company", company) if form.back == list_address("company") else form.back
    return redirect_after(visit.request, back, "member_saved" if role else "member_removed")


async def _read_form(visit: Visit) -> RecordForm:
    if not visit.who.rights.anywhere(CHANGE):
        visit.require(CHANGE, None)
    asked = visit.asked_ids("company_id", "user_id")
    company, user = asked.get("company_id"), asked.get("user_id")
    members: Mapping[str, Any] = {}
    back, here = list_address("company"), KINDS["company"].many
    if company is not None:
        visit.require(CHANGE, company)
        members = await visit.get(f"/company/{company}/users")
        back = page_of("company", company)
    elif user is not None:
        back, here = page_of("user", user), KINDS["user"].many
    member = members.get(str(user), {})
    login = member.get("login") or ""
    if user is not None and not login:
        login = (await visit.get(f"/user/{user}"))["login"]
    logins = [str(each["login"]) for each in (await visit.get("/users", {"limit": 1000})).values()]
    roles = [*ROLES.items(), ("", Text("none: remove the membership"))]
    companies = await visit.permitted_companies(CHANGE)
    fields = [
        FormField("/user_id", Text("Login"), "named", is_required=True, offer="logins"),
        FormField("/company_id", Text("Company"), "choice", choices=companies),
        FormField(
            "/role",
            Text("Role"),
            "choice",
            Text("What the user may do in this company, in addition to the roles of the account."),
            choices=roles,
        ),
    ]
    return RecordForm(
        title=Text("Membership"),
        here=here,
        action=f"{ADDRESS}?{urlencode(asked)}",
        target="",
        kind="company",
        groups=[FieldGroup(Text("Membership"), fields)],
        values={
            "/user_id": login,
            "/company_id": "" if company is None else str(company),
            "/role": member.get("role", Membership.VIEWER),
        },
        back=back,
        offers={"logins": sorted(logins)},
    )
