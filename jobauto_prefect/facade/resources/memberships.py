"""The routes of users' roles and companies' members."""

from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Request, Response
from pydantic import Field, WithJsonSchema

from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.answers import key_by_id
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.auth.permissions import Membership
from jobauto_prefect.facade.http.field_types import Boolean
from jobauto_prefect.facade.http.requests import Body, BodyFields, parse_translated
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds import companies, users
from jobauto_prefect.facade.kinds.companies import serialize_member
from jobauto_prefect.facade.kinds.users import RoleName, serialize_role
from jobauto_prefect.facade.resources.natural_keys import is_name, key_type, resolve_names
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.facade.writes import memberships
from jobauto_prefect.facade.writes.base import Id, Ref, ShortText
from jobauto_prefect.ledger.queries.companies import members_of
from jobauto_prefect.ledger.queries.lookup import get_record, names_of
from jobauto_prefect.ledger.records import Company, User
from jobauto_prefect.ledger.store import ReadingSession

UserKey: Any = key_type(User, "user_id")
CompanyKey: Any = key_type(Company, "company_id")


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.get("/user/{user_id}/roles.{suffix}")(roles)
    router.get("/user/{user_id}/roles", include_in_schema=False)(roles)
    router.post("/user/{user_id}/roles/")(set_roles)
    router.post("/user/{user_id}/roles", include_in_schema=False)(set_roles)
    router.get("/company/{company_id}/users.{suffix}")(members)
    router.get("/company/{company_id}/users", include_in_schema=False)(members)
    for path, in_schema in (("user/", True), ("user", False)):
        assign = router.post(
            f"/company/{{company_id}}/{path}", status_code=201, include_in_schema=in_schema
        )
        assign(assign_member)
    router.delete("/company/{company_id}/user/{user_id}")(remove_member)


def roles(
    user_id: UserKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return the roles of a user, by the id of the role."""
    with service.ledger.reading() as session:
        user = _get_visible_user(session, user_id, who)
        held = [serialize_role(assignment) for assignment in user.role_assignments]
    return respond_plain(request, who, f"Roles of {user.login}", key_by_id(held))


def _get_visible_user(session: ReadingSession, user_id: int, who: Identity) -> User:
    user = get_record(session, User, user_id)
    if user.id != who.user_id:
        who.rights.require("users", "read", None, user)
    return user


class RolesBody(Body):
    """The roles to give, by their names; with `replace` (the default) instead of the former."""

    record: ClassVar = users.User

    roles: list[RoleName]
    replace: Boolean | None = Field(
        default=None,
        description="Instead of the roles there are (the default), or beside them.",
    )
    assigned_by: Id | ShortText | None = Field(
        default=None, description="Read and not used: it is who asks."
    )


def set_roles(
    user_id: UserKey,
    fields: BodyFields,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
) -> Response:
    """Give a user roles."""
    body = parse_translated(request, "roles", RolesBody, fields)
    replace = body.replace is not False
    with service.ledger.writing(who.actor) as session:
        user = _get_visible_user(session, user_id, who)
        memberships.set_roles(session, who, user, body.roles, replace=replace)
        session.flush()
        held = [assignment.role for assignment in user.role_assignments]
    data = {"user_id": user_id, "replace": replace, "roles": held}
    return respond_plain(request, who, f"Roles of {user.login}", data)


def members(
    company_id: CompanyKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return the users of a company with their roles there, by the id of the user."""
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
        message = "company_id is another than the path's"
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


def remove_member(
    company_id: CompanyKey,
    user_id: UserKey,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
) -> Response:
    """End a membership."""
    with service.ledger.writing(who.actor) as session:
        company = get_record(session, Company, company_id)
        memberships.remove_member(session, who, company, user_id)
    gone = {"company_id": company_id, "user_id": user_id, "deleted": 1, "success": True}
    return respond_plain(request, who, f"Member of {company.name}", gone)
