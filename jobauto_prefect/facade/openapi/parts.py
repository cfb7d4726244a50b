"""What operations share: parameters, answers, errors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobauto_prefect.facade.errors import NAMES
from jobauto_prefect.facade.idempotency import HEADER
from jobauto_prefect.facade.lists import LARGEST_PAGE
from jobauto_prefect.facade.openapi.schemas import Json, reference
from jobauto_prefect.facade.rendering import FORMATS
from jobauto_prefect.ledger.base import BIGGEST_ID

ERRORS: Mapping[int, str] = {
    400: "The request is wrong. `details` has every fault with its place.",
    401: "No credentials, or credentials that are not valid.",
    403: "You are known and may not do this; or the request came by the wrong way: plain HTTP from "
    "another machine, or a page of another site.",
    404: "There is no such record, or none you may see.",
    406: "The format is not spoken here. `details.formats` are those that are.",
    409: "The state of the record forbids it, or others depend on it.",
    413: "The body is larger than the service takes.",
    422: "The `Idempotency-Key` came before, with another request.",
    429: "Too many failed sign-ins of this account: try later, or use a token.",
    503: "The database is away. Try again.",
}
ANYWHERE = (400, 403, 404, 406, 503)
SIGNED_IN = (401, 429)
WRITING = (409, 413)

RETRY_AFTER: Json = {
    "description": "Seconds to wait.",
    "required": True,
    "schema": {"type": "integer", "minimum": 1},
}
HEADERS: Mapping[int, Json] = {
    401: {
        "WWW-Authenticate": {
            "description": "The schemes that are taken, the preferred one first.",
            "required": True,
            "schema": {"type": "string"},
        }
    },
    409: {"Retry-After": {**RETRY_AFTER, "required": False}},
    429: {"Retry-After": RETRY_AFTER},
    503: {"Retry-After": RETRY_AFTER},
}
LOCATION: Json = {
    "description": "The address of the record.",
    "required": True,
    "schema": {"type": "string", "format": "uri-reference"},
}
REPLAYED: Json = {
    "description": "The answer of the first request with this `Idempotency-Key` is given again.",
    "schema": {"type": "string", "enum": ["true"]},
}
COUNT: Json = {
    "description": "How many records the whole list has.",
    "required": True,
    "schema": {"type": "integer", "minimum": 0},
}
NEXT: Json = {
    "description": 'The next page, as `<…>; rel="next"`; the last page has none.',
    "schema": {"type": "string"},
}

FOR_RECORDS = tuple(name for name, one in FORMATS.items() if not one.for_lists_only)
FOR_LISTS = tuple(FORMATS)


def error_name(status: int) -> str:
    """The name of an error among the components: `NotFound`."""
    return NAMES[status].replace(" ", "")


def error_responses() -> Json:
    """`components/responses`."""
    return {
        error_name(status): {
            "description": text,
            **({"headers": HEADERS[status]} if status in HEADERS else {}),
            "content": content(reference("Error"), FOR_RECORDS),
        }
        for status, text in ERRORS.items()
    }


def errors(*statuses: int) -> Json:
    """The answers of an operation that are errors."""
    return {
        str(status): {"$ref": f"#/components/responses/{error_name(status)}"}
        for status in sorted(statuses)
    }


def content(schema: Json, formats: Iterable[str]) -> Json:
    """A body in formats; only JSON has a schema, the others say the same."""
    return {
        FORMATS[name].media_type: {"schema": schema} if name == "json" else {} for name in formats
    }


def suffix(formats: Sequence[str]) -> Json:
    """The path's suffix."""
    named = {FOR_RECORDS: "Suffix", FOR_LISTS: "ListSuffix"}.get(tuple(formats))
    return shared(named) if named else _suffix(formats)


def shared(name: str) -> Json:
    """A reference to one of `components/parameters`."""
    return {"$ref": f"#/components/parameters/{name}"}


def parameters() -> Json:
    """`components/parameters`."""
    return {
        "Suffix": _suffix(FOR_RECORDS),
        "ListSuffix": _suffix(FOR_LISTS),
        **{name: optional(one) for name, one in _paging().items()},
        "IdempotencyKey": {
            "name": HEADER,
            "in": "header",
            "description": "Of your making, up to 255 visible ASCII characters. For a day a "
            "request with the same key does nothing more and has the first answer again.",
            "schema": {"type": "string", "pattern": "^[\\x21-\\x7e]{1,255}$"},
        },
    }


def _paging() -> dict[str, Json]:
    return {
        "Limit": query(
            "limit",
            "How many at most.",
            {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE},
        ),
        "Cursor": query(
            "cursor",
            "Where the page before ended. It is part of the address in the header `Link`; don't "
            "make one. Pages that are followed by it neither repeat nor hide a record.",
            {"type": "string", "contentEncoding": "base64url"},
        ),
        "Offset": query(
            "offset",
            "How many to leave out; better follow the header `Link`.",
            {"type": "integer", "minimum": 0, "maximum": BIGGEST_ID, "default": 0},
        ),
    }


def _suffix(formats: Sequence[str]) -> Json:
    return {
        "name": "suffix",
        "in": "path",
        "required": True,
        "description": "The format of the answer, errors included.",
        "schema": {"type": "string", "enum": list(formats)},
        "example": "json",
    }


NUMBER: Json = {"type": "integer", "minimum": 1, "maximum": BIGGEST_ID}
NAME: Json = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "[^0-9]"}
"""What a record is called in place of its number: not digits alone."""

CALLED: Mapping[str, str] = {
    "calendar": "name",
    "application": "UUID or name; a company's own also as `company/name`",
    "company": "slug, or code",
    "credential": "`company/name`",
    "credential type": "code or UUID; a company's own also as `company/code`",
    "event source": "name",
    "run template": "`company/name`",
    "topic": "name; a company's own also as `company/name`",
    "user": "login",
}
"""What records of a kind are called in place of their numbers; others have numbers only."""


def key(name: str, of: str) -> Json:
    """The number, or the name, of a record in the path."""
    called = f", or its {CALLED[of]}; a slash in it is `%2F`" if of in CALLED else ""
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": f"The number of the {of}{called}.",
        "schema": number_or_name(of),
        "example": 1,
    }


def number_or_name(of: str, lowest: int = 1) -> Json:
    """What names a record of a kind."""
    number = NUMBER | {"minimum": lowest}
    return {"anyOf": [number, NAME]} if of in CALLED else number


def query(name: str, description: str, schema: Json) -> Json:
    """An optional field of the query."""
    return {"name": name, "in": "query", "description": description, "schema": schema}


def optional(parameter: Json) -> Json:
    """A field that pages send empty where nothing was filled in; it counts as not sent then."""
    return parameter | {"allowEmptyValue": True}


def body(schema: Json, *, required: bool = True, **media_types: Any) -> Json:
    """A request body that is JSON; `media_types` are others."""
    return {
        "required": required,
        "content": {"application/json": {"schema": schema}, **media_types},
    }
