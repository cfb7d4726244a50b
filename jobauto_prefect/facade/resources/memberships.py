"""The members of companies."""

from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field, WithJsonSchema

from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.answers import Answer
from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.auth.permissions import Membership
from jobauto_prefect.facade.http.operations import WRITE_ERRORS, answered, keyed, operation
from jobauto_prefect.facade.http.requests import Body, BodyFields, parse_translated
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds import companies
from jobauto_prefect.facade.kinds.companies import serialize_member
from jobauto_prefect.facade.kinds.natural_keys import is_name, key_type, resolve_names
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.facade.writes import memberships
from jobauto_prefect.facade.writes.base import Ref
from jobauto_prefect.ledger.queries.companies import members_of
from jobauto_prefect.ledger.queries.lookup import get_record, names_of
from jobauto_prefect.ledger.records import Company, User

UserKey: Any = key_type(User, "user_id")
CompanyKey: Any = key_type(Company, "company_id")


router = APIRouter()


@operation(
    router, "GET /company/{company_id}/users.{suffix}", "listMembers",
    "List the members of a company",
    "An object keyed by user id. Needs `companies.read`.",
    tag="Companies", answer=answered("The members.", keyed(companies.Member)),
)  # fmt: skip
def members(
    company_id: CompanyKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return the members of a company with their roles, keyed by user id."""
    with service.ledger.reading() as session:
        company = get_record(session, Company, company_id)
        who.rights.require("companies", "read", company_id, company)
        memberships = members_of(session, company_id)
        logins = names_of(session, User, {member.user_id for member in memberships})
    data = {
        str(member.user_id): serialize_member(member, logins.get(str(member.user_id)))
        for member in memberships
    }
    return respond_plain(request, who, f"Users of {company.name}", data)


MembershipName = Annotated[str, WithJsonSchema({"type": "string", "enum": [*Membership]})]


class MemberBody(Body):
    """A user to make a member of a company."""

    record: ClassVar = companies.Member

    user_id: Ref
    role: MembershipName = "viewer"
    company_id: Ref | None = None


@operation(
    router, "POST /company/{company_id}/user/", "assignMember", "Assign a user to a company",
    "Makes a user a member, or changes the member's role. Needs `members.update`.",
    tag="Companies", answer=answered("The membership.", companies.Member, status=201),
    errors=WRITE_ERRORS, body=MemberBody,
)  # fmt: skip
def assign_member(
    company_id: CompanyKey,
    fields: BodyFields,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
) -> Response:
    """Make a user a member of a company, or change the member's role."""
    if any(is_name(fields.get(name)) for name in ("user_id", "company_id")):
        with service.ledger.reading() as reading:
            fields = resolve_names(reading, who, "member", fields)
    body = parse_translated(request, "member", MemberBody, fields)
    if body.company_id not in (None, company_id):
        message = "company_id differs from the company of the path"
        raise InvalidInput([Fault("/company_id", "mismatch", message)])
    with service.ledger.writing(who.actor) as session:
        company = get_record(session, Company, company_id)
        memberships.require_member_admin(who, company)
        user = session.get(User, body.user_id)
        if user is None or user.retired_at is not None:
            message = f"there is no user {body.user_id}"
            raise InvalidInput([Fault("/user_id", "reference", message)])
        member = memberships.assign_member(session, who, company, user, body.role)
        shown = serialize_member(member, user.login)
    return respond_plain(request, who, f"Member of {company.name}", shown, 201)


class MembershipEnded(Answer):
    """The user is no longer a member of the company."""

    company_id: int = Field(description="The company.")
    user_id: int = Field(description="The user.")
    deleted: Literal[1] = Field(description="The number of removed memberships.")
    success: Literal[True] = Field(description="Always true.")


@operation(
    router, "DELETE /company/{company_id}/user/{user_id}", "removeMember",
    "Remove a user from a company",
    "The user is no longer a member. Needs `members.update`.",
    tag="Companies", answer=answered("The membership was removed.", MembershipEnded), errors=(409,),
)  # fmt: skip
def remove_member(
    company_id: CompanyKey,
    user_id: UserKey,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
) -> Response:
    """Remove a membership."""
    with service.ledger.writing(who.actor) as session:
        company = get_record(session, Company, company_id)
        memberships.remove_member(session, who, company, user_id)
    gone = {"company_id": company_id, "user_id": user_id, "deleted": 1, "success": True}
    return respond_plain(request, who, f"Member of {company.name}", gone)
