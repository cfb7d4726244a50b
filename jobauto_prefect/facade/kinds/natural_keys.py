"""Names instead of ids in paths, queries and bodies."""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from jobauto_prefect.definitions.records.actions import STARTED, ActionMode
from jobauto_prefect.errors import Conflict, Fault, InvalidInput, NotFound
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.field_types import as_integer, parse_int, parse_text
from jobauto_prefect.facade.http.parameters import path_key
from jobauto_prefect.facade.http.requests import Fields
from jobauto_prefect.facade.kinds.registry import BY_ITEM, BY_RECORD
from jobauto_prefect.facade.kinds.resource import Filter
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.kinds import KINDS as WORDS
from jobauto_prefect.ledger.access.ownership import OwnedRecord, company_of
from jobauto_prefect.ledger.base import Base, noun_of
from jobauto_prefect.ledger.queries.names import LOOKS
from jobauto_prefect.ledger.records import (
    Company,
    EventSource,
    User,
)
from jobauto_prefect.ledger.store import ReadingSession

KINDS: Mapping[str, type[Any]] = {item: each.record for item, each in BY_ITEM.items()}

REFERENCES: Mapping[str, Mapping[str, type[Any]]] = {
    **{
        item: {each.field: KINDS[each.kind] for each in kind.named_in_files.values()}
        for item, kind in WORDS.items()
    },
    "member": {"user_id": User, "company_id": Company},
}
"""The reference fields of bodies; the company comes before records that may belong to it."""

IN_ACTIONS: Mapping[str, type[Any]] = {each.field: KINDS[each.kind] for each in STARTED.values()}


def is_name(given: Any) -> bool:
    """Whether the value is a name rather than an id."""
    if not isinstance(given, str) or given != given.strip() or not given:
        return False
    return re.fullmatch("-?[0-9]+", given) is None


def parse_key(parameter: str, given: Any) -> Any:
    """Return the id of a record as a number, or its name as it is."""
    read = parse_text if is_name(given) else parse_int
    return read(parameter, given)


def key_type(kind: type[Base], parameter: str = "record_id") -> Any:
    """Return the type of a path parameter for a record, sent as id or as name."""

    async def read(request: Request, who: CurrentUser, service: CurrentService) -> int:
        word: str = request.path_params[parameter]
        if request.scope.get("slashes_encoded"):
            word = unquote(word)
        if kind in LOOKS and is_name(word):
            return await run_in_threadpool(
                _read_id, service, who, kind, parse_text(parameter, word)
            )
        try:
            return as_integer(word)
        except ValueError as error:
            raise InvalidInput([Fault(f"/{parameter}", "type", str(error))]) from None

    read.parameter = path_key(BY_RECORD[kind].kind, parameter)  # type: ignore[attr-defined]
    return Annotated[int, Depends(read)]


def _read_id(service: Service, who: Identity, kind: type[Base], word: str) -> int:
    with service.ledger.reading() as session:
        return require_id(session, who, kind, word)


def require_id(session: ReadingSession, who: Identity, kind: type[Any], word: str) -> int:
    """Return the id of the record with this name.

    Raises:
        NotFound: it does not exist, or the user may not see it.
        Conflict: several have the name.
    """
    record_id = find_id(session, who, kind, word)
    if record_id is None:
        raise NotFound(f"there is no {noun_of(kind)} {word}")
    return record_id


def find_id(
    session: ReadingSession,
    who: Identity,
    kind: type[Any],
    word: str,
    company_id: int | None = None,
) -> int | None:
    """Return the id of the record with this name; None if not found or not visible to the user.

    `company_id` is the company of the referring record.

    Raises:
        Conflict: several have the name.
    """
    visible = [record for record in LOOKS[kind](session, word) if _can_read(who, kind, record)]
    if kind not in OWNED:
        return visible[0].id if visible else None
    meant = _select_meant(who, visible, company_id)
    if len(meant) > 1:
        ids = ", ".join(str(record.id) for record in meant)
        raise Conflict(f"several are named {word!r}; use one of the ids {ids}")
    return meant[0].id if meant else None


OWNED = (*OwnedRecord.__args__, EventSource)
"""Kinds whose names are unique within a company, and among records without one."""


def _can_read(who: Identity, kind: type[Any], record: Any) -> bool:
    resource = BY_RECORD[kind]
    return resource.is_own(who, record) or who.rights.may_read(
        resource.kind.permissions, company_of(record)
    )


def _select_meant(who: Identity, records: list[Any], company_id: int | None) -> list[Any]:
    """Return the company's own records, else the shared ones; without a company, else all."""
    companies = who.rights.companies_with("applications.read") or frozenset()
    mine = companies if company_id is None else {company_id}
    own = [record for record in records if record.company_id in mine]
    shared = [record for record in records if record.company_id is None]
    return own or shared or ([] if company_id is not None else records)


def filter_value(request: Request, who: Identity, looked: Filter, given: str) -> str:
    """Return the value for a filter: the id for a name, 0 if no record has it."""
    if not looked.refers_to or not is_name(given):
        return given
    service: Service = request.app.state.service
    word = parse_text(looked.column, given)
    with service.ledger.reading() as session:
        return str(find_id(session, who, KINDS[looked.refers_to], word) or 0)


def resolve_names(
    session: ReadingSession, who: Identity, item: str, fields: Fields, record_id: int | None = None
) -> Fields:
    """Return the fields of a write with ids for the names of the records they refer to.

    Raises:
        InvalidInput: naming each that does not exist or that the user may not see, whether sent as
            an id or as a name.
        JobautoError: the kind's own error for a reference that does not exist.
    """
    resource = BY_ITEM.get(item)
    unresolved = resource.unresolved if resource else None
    written = resource.body.model_fields if resource and resource.body else {}
    members = REFERENCES.get(item, {})
    given = [name for name in members if fields.get(name) is not None]
    actions = [mode for mode in ActionMode if mode in written and mode in fields]
    faults: list[Fault] = []
    ids_in_actions: list[Fault] = []  # the write reports them with its other errors
    read = dict(fields)

    def resolve(kind: type[Any], word: Any, pointer: str, missing_ids: list[Fault] = faults) -> Any:
        if is_name(word):
            company_id = _company_of(session, who, item, read, record_id)
            reference_id = find_id(session, who, kind, parse_text(pointer[1:], word), company_id)
            is_there = reference_id is not None
        else:  # the write of such a kind checks ids itself
            reference_id, is_there = word, bool(unresolved) or _is_there(session, who, kind, word)
        message = f"there is no {noun_of(kind)} {word!r}"
        if not is_there and unresolved:
            raise unresolved(message)
        if not is_there:
            missing = faults if is_name(word) else missing_ids
            missing.append(Fault(pointer, "reference", message))
        return reference_id

    for name in given:
        read[name] = resolve(members[name], fields[name], f"/{name}")
    slug: Any = fields.get("company")
    if "company_id" in members and is_name(slug) and find_id(session, who, Company, slug) is None:
        message = f"there is no company with the slug {slug}"
        faults.append(Fault("/company", "reference", message))
    for mode in actions:
        in_action = functools.partial(resolve, missing_ids=ids_in_actions)
        read[mode] = _resolve_actions(fields[mode], f"/{mode}", in_action)
    if faults:
        raise InvalidInput([*faults, *ids_in_actions])
    return read


def _is_there(session: ReadingSession, who: Identity, kind: type[Any], given: Any) -> bool:
    """Whether a record has this id; the body's own validation reports anything but an id."""
    try:
        number = as_integer(given)
    except ValueError:
        return True
    if number < 1:
        return True
    record = session.get(kind, number)
    # The write reads it again, and a session keeps only objects that are still referenced.
    session.info.setdefault("referred_to", []).append(record)
    gone = record is None or getattr(record, "retired_at", None) is not None
    return not gone and _can_read(who, kind, record)


def _resolve_actions(
    actions: Any, pointer: str, resolve: Callable[[type[Any], str, str], Any]
) -> Any:
    if not isinstance(actions, dict):
        return actions
    return {
        action: {
            name: resolve(IN_ACTIONS[name], value, f"{pointer}/{action}/{name}")
            if name in IN_ACTIONS and value is not None
            else value
            for name, value in configured.items()
        }
        if isinstance(configured, dict)
        else configured
        for action, configured in actions.items()
    }


def _company_of(
    session: ReadingSession, who: Identity, item: str, fields: Fields, record_id: int | None
) -> int | None:
    """Return the company id of a write: the one it names, else its record's.

    None: neither names a company.
    """
    given, slug = fields.get("company_id"), fields.get("company")
    if isinstance(given, int | str) and not is_name(given):
        try:
            return as_integer(given)
        except ValueError:
            return None
    if isinstance(slug, str):
        return find_id(session, who, Company, slug)
    record = session.get(KINDS[item], record_id) if record_id and item in KINDS else None
    company_id: int | None = getattr(record, "company_id", None)
    return company_id


def is_same_record(
    service: Service, who: Identity, kind: type[Base], given: Any, record_id: int
) -> bool:
    """Whether a body's `id` refers to the record of the path."""
    if kind in LOOKS and is_name(given):
        return _read_id(service, who, kind, given) == record_id
    return str(given) == str(record_id)
