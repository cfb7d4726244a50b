"""Signing in and out, and what this service holds about oneself."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Request, Response

from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade import records
from jobauto_prefect.facade.answers import plain
from jobauto_prefect.facade.auth import Identity, Person, located, signed_in
from jobauto_prefect.facade.credentials import authorization, decode_basic
from jobauto_prefect.facade.requests import (
    Fields,
    RawBody,
    json_fields,
    query_fields,
    refuse_unfit,
)
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.audit import Actor, WritingSession, write_entry
from jobauto_prefect.ledger.listing import Condition, Selection, page
from jobauto_prefect.ledger.records import AuditEntry, Base, Company, Job, Token, User
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.ledger.tokens import bearer, issue_user_token

FORM = "application/x-www-form-urlencoded"
LOGIN_TOKEN = timedelta(hours=12)
EXPORTED = 1000  # jobs and audit entries in an export, the newest


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    for path in ("/login.{suffix}", "/login"):
        in_schema = path != "/login"
        router.get(path, include_in_schema=in_schema)(login)
        router.post(path, include_in_schema=in_schema)(login)
    router.post("/logout")(logout)
    router.post("/logout.{suffix}", include_in_schema=False)(logout)
    for path in ("/data-export", "/data-export.{suffix}"):
        in_schema = path == "/data-export"
        router.get(path, include_in_schema=in_schema)(data_export)
        router.post(path, include_in_schema=in_schema)(data_export)
    router.get("/data-export-download", name="data_export_download", include_in_schema=False)(
        data_export
    )


def sign_in_fields(raw: RawBody, request: Request) -> Fields:
    """The fields of the query, and of the body: a JSON object whatever its type says, or a form.

    Raises:
        InvalidInput: it is neither.
    """
    fields = query_fields(request)
    is_form = request.headers.get("content-type", "").startswith(FORM)
    if is_form and not raw.lstrip().startswith(b"{"):
        form = dict(parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True))
        refuse_unfit(form)
        said = form
    else:
        said = json_fields(raw) if raw.strip() else {}
    request.state.fields = fields | said
    return fields | said


SignInFields = Annotated[Fields, Depends(sign_in_fields)]


def login(request: Request, fields: SignInFields, service: CurrentService) -> Response:
    """A token for a login and a password: JSON, form, query, or a Basic header."""
    name, password = _credentials(fields, request)
    user = signed_in(service, request, name, password)
    actor = located(request, Actor(name=user.login, door="rest", user_id=user.user_id))
    expires_at = service.ledger.clock() + LOGIN_TOKEN
    with service.ledger.writing(actor) as session:
        text, _ = issue_user_token(session, queries.get(session, User, user.user_id), expires_at)
        write_entry(session, "Login", "login", {}, entity_id=user.user_id)
    data = {
        "token": text,
        "expires_at": expires_at.isoformat(),
        "user": {"id": user.user_id, "login": user.login, "email": user.email},
        "status": "success",
        "message": f"signed in as {user.login}",
    }
    return plain(request, None, "Signed in", data)


def _credentials(fields: Fields, request: Request) -> tuple[str, str]:
    scheme, credentials = authorization(request.headers)
    if scheme == "basic":
        return decode_basic(credentials)
    name, password = fields.get("username", fields.get("login")), fields.get("password")
    if isinstance(name, str) and isinstance(password, str):
        return name, password
    message = "send username (or login) and password, or a Basic header"
    raise InvalidInput([Fault("/username", "required", message)])


def logout(
    request: Request, fields: SignInFields, who: Person, service: CurrentService
) -> Response:
    """Revoke a token of one's own: `token` of the body, else the one this request came with."""
    with service.ledger.writing(who.actor) as session:
        _own_token(session, fields, who).revoked_at = session.clock()
    return plain(request, None, "Signed out", {"message": "signed out", "status": "success"})


def _own_token(session: WritingSession, fields: Fields, who: Identity) -> Token:
    if "token" in fields:
        text = fields["token"]
        if not isinstance(text, str):
            raise InvalidInput([Fault("/token", "type", "must be a text")])
        named = bearer(session, text, session.clock())
        if named is None or who.user_id is None or named.user_id != who.user_id:
            raise InvalidInput([Fault("/token", "reference", "this is none of your valid tokens")])
        return queries.get(session, Token, named.token_id)
    if who.token_id is None:
        message = "only a token can be signed out: as Bearer, or as token in the body"
        raise InvalidInput([Fault("/token", "required", message)])
    return queries.get(session, Token, who.token_id)


def data_export(
    request: Request, _fields: SignInFields, who: Person, service: CurrentService
) -> Response:
    """What this service holds about the user who asks."""
    if who.user_id is None:
        raise Forbidden("only a user has data of their own; the local operator is none")
    with service.ledger.reading() as session:
        user = queries.get(session, User, who.user_id)
        data = {
            "export_metadata": {"generated_at": service.ledger.clock().isoformat()},
            "user_profile": records.user_record(user, service.settings),
            "company_associations": _companies(session, user),
            "tokens": [records.token_record(one) for one in queries.tokens_of(session, user.id)],
            "job_history": [
                records.job_record(one, service.settings)
                for one in _newest(session, Job, "launched_by", user.id)
            ],
            "audit_trails": [
                records.audit_record(one, service.settings)
                for one in _newest(session, AuditEntry, "user_id", user.id)
            ],
        }
    return plain(request, who, f"Data of {user.login}", data)


def _companies(session: ReadingSession, user: User) -> list[dict[str, Any]]:
    names = queries.names_of(session, Company, {one.company_id for one in user.memberships})
    return [
        records.member_record(one, user.login) | {"company": names.get(str(one.company_id))}
        for one in user.memberships
    ]


def _newest(session: ReadingSession, kind: type[Base], column: str, value: int) -> Sequence[Any]:
    chosen = Selection(conditions=(Condition(column, value),), limit=EXPORTED, count=False)
    return page(session, kind, chosen).records
