"""Memberships: who belongs to which company, with which role; one form gives, changes and ends one.

The contract knows a user by the login, too: who may change members need not read users.
"""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from fastapi import Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.auth.permissions import Membership
from jobauto_prefect.facade.console.contract import Contract, ContractError
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.choices import read_permitted_companies
from jobauto_prefect.facade.console.records.forms import (
    FieldGroup,
    Form,
    FormField,
    SentForm,
    refuse,
)
from jobauto_prefect.facade.console.records.pages import (
    SHOWN_AGAIN,
    Action,
    RecordForm,
    Section,
    link,
    query_ids,
    require,
    respond_with_form,
    text_cell,
)
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit
from jobauto_prefect.facade.http import late_routes

ADDRESS = f"{CONSOLE}/members"
CHANGE = "members.update"
ROLES: Mapping[Membership, str] = {
    Membership.VIEWER: "viewer: reads",
    Membership.MANAGER: "manager: changes and runs what there is",
    Membership.ADMIN: "admin: may everything in the company",
}

router = late_routes.router(include_in_schema=False)


def member_address(**query: int) -> str:
    """Return where the form is for this company or user."""
    return f"{ADDRESS}?{urlencode(query)}"


async def members_section(visit: Visit, company_id: int) -> Section:
    """Read the members of a company, each with a link to the form."""
    translate, may = visit.translate, visit.who.rights.may(CHANGE, company_id)
    members = (await visit.contract.read(f"/company/{company_id}/users")).data
    heads = [translate("User"), translate("Role"), *([translate("Membership")] if may else [])]
    return Section(
        "members",
        translate("Members"),
        heads,
        [
            [
                link(member["login"] or f"#{number}", f"{CONSOLE}/users/{number}"),
                text_cell(translate(ROLES[Membership(member["role"])])),
                *(
                    [link(translate("Change"), member_address(company_id=company_id,
                                                              user_id=int(number)))]
                    if may else []
                ),
            ]
            for number, member in members.items()
        ],
        translate("It has no member: only administrators see it."),
    )  # fmt: skip


def add_action(visit: Visit, company_id: int) -> list[Action]:
    """Return the link to the form, for those who may change the members of a company."""
    if not visit.who.rights.may(CHANGE, company_id):
        return []
    return [Action(visit.translate("Add member"), member_address(company_id=company_id))]


@router.get(ADDRESS)
async def show_form(visit: CurrentVisit) -> Response:
    """Show the form, filled in with the company and the user that the address names."""
    return respond_with_form(visit.request, visit.who, await _read_form(visit))


@router.post(ADDRESS)
async def save_member(visit: CurrentVisit, sent: SentForm) -> Response:
    """Give, change or end a membership, and lead back to the company or the user."""
    form = await _read_form(visit)
    try:
        await _write(visit.contract, sent)
    except ContractError as error:
        if error.status == 404:  # it is no page that is missing
            error = ContractError(400, str(error))
        if error.status not in SHOWN_AGAIN:
            raise error from None
        return respond_with_form(visit.request, visit.who, form, sent, error)
    back = form.back
    if back == f"{CONSOLE}/companies":
        back = f"{back}/{sent['/company_id']}"
    return redirect_after(
        visit.request, back, "member_saved" if sent.get("/role") else "member_removed"
    )


async def _write(contract: Contract, sent: Form) -> None:
    company, login, role = (
        sent.get(name, "").strip() for name in ("/company_id", "/user_id", "/role")
    )
    for name, given in (("/company_id", company), ("/user_id", login)):
        if not given:
            raise refuse(name, "choose one")
    members = f"/company/{quote(company, safe='')}/user"
    if role:
        await contract.write("POST", f"{members}/", {"user_id": login, "role": role})
    else:
        await contract.write("DELETE", f"{members}/{quote(login, safe='')}")


async def _read_form(visit: Visit) -> RecordForm:
    contract, translate = visit.contract, visit.translate
    if not contract.who.rights.anywhere(CHANGE):
        require(contract.who, CHANGE, None)
    asked = query_ids(visit.request, "company_id", "user_id")
    company, user = asked.get("company_id"), asked.get("user_id")
    members = {}
    if company is not None:
        require(contract.who, CHANGE, company)
        members = (await contract.read(f"/company/{company}/users")).data
    member = members.get(str(user))
    login = (member or {}).get("login") or ""
    if user is not None and not login:
        login = (await contract.read(f"/user/{user}")).data["login"]
    logins = [
        str(record["login"])
        for record in (await contract.read("/users", {"limit": 1000})).data.values()
    ]
    back = f"{CONSOLE}/companies"
    if company is not None:
        back = f"{back}/{company}"
    elif user is not None:
        back = f"{CONSOLE}/users/{user}"
    roles = [(str(role), translate(text)) for role, text in ROLES.items()]
    fields = [
        FormField("/user_id", translate("Login"), "named", is_required=True, offer="logins"),
        FormField(
            "/company_id",
            translate("Company"),
            "choice",
            choices=await read_permitted_companies(contract, CHANGE, visit.languages),
        ),
        FormField(
            "/role",
            translate("Role"),
            "choice",
            translate("What the user may do in this company, beside the roles of the account."),
            choices=[*roles, ("", translate("no member: end the membership"))],
        ),
    ]
    return RecordForm(
        title=translate("Membership"),
        here="Users" if back.startswith(f"{CONSOLE}/users") else "Companies",
        action=f"{ADDRESS}?{urlencode(asked)}",
        target="",
        collection="companies",
        groups=[FieldGroup(translate("Membership"), fields)],
        values={
            "/user_id": login,
            "/company_id": "" if company is None else str(company),
            "/role": (member or {}).get("role", Membership.VIEWER),
        },
        back=back,
        submit=translate("Save"),
        offers={"logins": sorted(logins)},
    )
