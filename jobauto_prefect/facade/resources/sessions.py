"""Signing in and out, and the export of one's own data."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.answers import Answer
from jobauto_prefect.facade.auth.headers import decode_basic, parse_authorization
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity, issue_login_token, sign_in
from jobauto_prefect.facade.http.operations import (
    SIGN_IN_ERRORS,
    SIGNING_IN,
    answered,
    hidden,
    json_body,
    operation,
)
from jobauto_prefect.facade.http.parameters import Json, query
from jobauto_prefect.facade.http.requests import (
    Fields,
    RawBody,
    read_json_object,
    read_query,
    refuse_unstorable,
)
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds import audit_entries, jobs, users
from jobauto_prefect.facade.kinds.audit_entries import serialize_audit_entry
from jobauto_prefect.facade.kinds.companies import Member, serialize_member
from jobauto_prefect.facade.kinds.jobs import serialize_job
from jobauto_prefect.facade.kinds.users import serialize_token, serialize_user
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger.access.tokens import TokenKind, bearer
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.queries.lists import Condition, Selection, page
from jobauto_prefect.ledger.queries.lookup import get_record, names_of
from jobauto_prefect.ledger.queries.users import tokens_of
from jobauto_prefect.ledger.records import AuditEntry, Base, Company, Job, Token, User
from jobauto_prefect.ledger.store import ReadingSession

FORM = "application/x-www-form-urlencoded"
LOGIN_TOKEN_LIFETIME = timedelta(hours=12)
MAX_EXPORTED = 1000  # jobs and audit entries in an export, the newest


PASSWORD_TOO: list[Json] = [{}, {"basic": []}]
SIGN_IN_FORM: Json = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "The login; `login` is an alias."},
        "login": {"type": "string", "description": "The login; `username` is an alias."},
        "password": {"type": "string", "description": "The password."},
    },
}
SIGN_IN_BODY = json_body(SIGN_IN_FORM, required=False, **{FORM: {"schema": SIGN_IN_FORM}})
SIGN_OUT_BODY = json_body(
    {
        "type": "object",
        "properties": {
            "token": {"type": "string", "description": "One of the caller's own tokens."}
        },
    },
    required=False,
)
router = APIRouter()


def read_sign_in_fields(raw: RawBody, request: Request) -> Fields:
    """Return the fields of query and body: a form, or a JSON object of any media type.

    Raises:
        InvalidInput: the body is neither.
    """
    fields = read_query(request)
    is_form = request.headers.get("content-type", "").startswith(FORM)
    if is_form and not raw.lstrip().startswith(b"{"):
        form = dict(parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True))
        refuse_unstorable(form)
        body = form
    else:
        body = read_json_object(raw) if raw.strip() else {}
    request.state.fields = fields | body
    return fields | body


SignInFields = Annotated[Fields, Depends(read_sign_in_fields)]


class SignedInUser(Answer):
    """The user who signed in."""

    id: int = Field(description="The id of the user.")
    login: str = Field(description="The name to sign in with.")
    email: str | None = Field(description="Mail address.")


class SignedIn(Answer):
    """A token, for the header `Authorization: Bearer TOKEN`."""

    token: str = Field(description="The token; it is shown here only.")
    expires_at: datetime = Field(description="When it expires; null: never.")
    user: SignedInUser = Field(description="The user.")
    status: Literal["success"] = Field(description="Always success.")
    message: str = Field(description="One line for people.")


def login(request: Request, fields: SignInFields, service: CurrentService) -> Response:
    """Issue a token for login and password, sent as JSON, form, query or Basic header."""
    is_page = request.method == "GET" and request.path_params.get("suffix") == "html"
    if is_page and not fields and "authorization" not in request.headers:
        return service.sign_in_form(request)
    name, password = _read_credentials(fields, request)
    user = sign_in(service, request, name, password)
    text, expires_at = issue_login_token(
        service, request, user, TokenKind.SIGN_IN, LOGIN_TOKEN_LIFETIME
    )
    data = {
        "token": text,
        "expires_at": expires_at.isoformat(),
        "user": {"id": user.user_id, "login": user.login, "email": user.email},
        "status": "success",
        "message": f"signed in as {user.login}",
    }
    return respond_plain(request, None, "Signed in", data)


for method, name, body in (("GET", "signInByGet", None), ("POST", "signIn", SIGN_IN_BODY)):
    add = operation(
        router, f"{method} /login.{{suffix}}", name, "Sign in",
        "Issues a token. Login and password are in the query, in a JSON body, in a form or in a "
        "Basic header. The token is valid for 12 hours. An error does not tell whether the login "
        "or the password is wrong.",
        tag=SIGNING_IN, answer=answered("The token.", SignedIn), errors=SIGN_IN_ERRORS,
        security=PASSWORD_TOO, request_body=body,
        parameters=lambda: [
            query(field, {"type": "string"}, described["description"])
            for field, described in SIGN_IN_FORM["properties"].items()
        ],
    )  # fmt: skip
    add(login)


def _read_credentials(fields: Fields, request: Request) -> tuple[str, str]:
    scheme, credentials = parse_authorization(request.headers)
    if scheme == "basic":
        return decode_basic(credentials)
    name, password = fields.get("username", fields.get("login")), fields.get("password")
    if isinstance(name, str) and isinstance(password, str):
        return name, password
    message = "send username (or login) and password, or a Basic header"
    raise InvalidInput([Fault("/username", "required", message)])


class SignedOut(Answer):
    """The token was revoked."""

    message: str = Field(description="One line for people.")
    status: Literal["success"] = Field(description="Always success.")


@operation(
    router, "POST /logout", "signOut", "Sign out",
    "Revokes the token in the body, which must be the caller's own. If there is none in the body, "
    "revokes the bearer token of the request.",
    tag=SIGNING_IN, answer=answered("The token was revoked.", SignedOut), errors=(413, 415),
    twin="/logout.{suffix}", request_body=SIGN_OUT_BODY, fields=lambda: ("token",),
)  # fmt: skip
def logout(
    request: Request, fields: SignInFields, who: CurrentUser, service: CurrentService
) -> Response:
    """Revoke one of the caller's tokens: `token` of the body, else the request's own."""
    with service.ledger.writing(who.actor) as session:
        _get_own_token(session, fields, who).revoked_at = session.clock()
    return respond_plain(
        request, None, "Signed out", {"message": "signed out", "status": "success"}
    )


def _get_own_token(session: WritingSession, fields: Fields, who: Identity) -> Token:
    if "token" in fields:
        text = fields["token"]
        if not isinstance(text, str):
            raise InvalidInput([Fault("/token", "type", "must be a text")])
        named = bearer(session, text, session.clock())
        if named is None or who.user_id is None or named.user_id != who.user_id:
            raise InvalidInput(
                [Fault("/token", "reference", "this is not one of your valid tokens")]
            )
        return get_record(session, Token, named.token_id)
    if who.token_id is None:
        message = "send the token to revoke, as Bearer or as token in the body"
        raise InvalidInput([Fault("/token", "required", message)])
    return get_record(session, Token, who.token_id)


class Association(Member):
    """A membership with the name of the company."""

    company: str | None = Field(description="Name of the company.")


class ExportMetadata(Answer):
    """When an export was made."""

    generated_at: datetime = Field(description="When it was made.")


class DataExport(Answer):
    """All data held about a user, but of jobs and of audit entries only the newest 1000 each."""

    export_metadata: ExportMetadata = Field(description="About the export.")
    user_profile: users.User = Field(description="The user.")
    company_associations: list[Association] = Field(
        description="The companies the user is a member of."
    )
    tokens: list[users.Token] = Field(description="The tokens of the user.")
    job_history: list[jobs.Job] = Field(description="The jobs the user has started.")
    audit_trails: list[audit_entries.AuditEntry] = Field(
        description="The audit entries of the user's actions."
    )


def data_export(
    request: Request, _fields: SignInFields, who: CurrentUser, service: CurrentService
) -> Response:
    """Return the data held about the caller."""
    if who.user_id is None:
        raise Forbidden("only users have data of their own, and the local operator is no user")
    with service.ledger.reading() as session:
        user = get_record(session, User, who.user_id)
        companies = names_of(session, Company, {each.company_id for each in user.memberships})
        data = {
            "export_metadata": {"generated_at": service.ledger.clock().isoformat()},
            "user_profile": serialize_user(user, service.settings),
            "company_associations": [
                serialize_member(each, user.login)
                | {"company": companies.get(str(each.company_id))}
                for each in user.memberships
            ],
            "tokens": [serialize_token(token) for token in tokens_of(session, user.id)],
            "job_history": [
                serialize_job(job, service.settings)
                for job in _newest_records(session, Job, "launched_by", user.id)
            ],
            "audit_trails": [
                serialize_audit_entry(entry, service.settings)
                for entry in _newest_records(session, AuditEntry, "user_id", user.id)
            ],
        }
    return respond_plain(request, who, f"Data of {user.login}", data)


def _export_fields() -> tuple[str, ...]:
    return "action", "format"  # sent by published clients


for method, name, errors in (("GET", "exportData", ()), ("POST", "exportDataByPost", (413, 415))):
    add = operation(
        router, f"{method} /data-export", name, "Export your own data",
        "The data this service holds about the caller: profile, memberships, tokens, and the "
        "newest jobs and audit entries.",
        tag=SIGNING_IN, answer=answered("The data.", DataExport), errors=errors,
        twin="/data-export.{suffix}", fields=_export_fields,
    )  # fmt: skip
    add(data_export)
hidden(
    router,
    "GET /data-export-download",
    route_name="data_export_download",
    fields=_export_fields,
)(data_export)


def _newest_records(
    session: ReadingSession, kind: type[Base], column: str, value: int
) -> Sequence[Any]:
    chosen = Selection(conditions=(Condition(column, value),), limit=MAX_EXPORTED, count=False)
    return page(session, kind, chosen).records
