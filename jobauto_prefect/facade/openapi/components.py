"""What operations share: parameters, responses, errors."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from jobauto_prefect.definitions.kinds import KINDS
from jobauto_prefect.facade.formats import FORMATS
from jobauto_prefect.facade.http.errors import PHRASES
from jobauto_prefect.facade.http.idempotency import HEADER
from jobauto_prefect.facade.openapi.schemas import Json, reference
from jobauto_prefect.facade.resources.lists import MAX_PAGE
from jobauto_prefect.ledger.base import BIGGEST_ID

ERRORS: Mapping[int, str] = {
    400: "The request is wrong. `details` has every error with its place.",
    401: "No credentials, or credentials that are not valid.",
    403: "You are known and may not do this; or the request came by the wrong way: plain HTTP from "
    "another machine, or a page of another site.",
    404: "There is no such record, or none you may see.",
    406: "The format is not spoken here. `details.formats` are those that are.",
    409: "The state of the record forbids it, or others depend on it.",
    412: "The record was to be new (`If-None-Match`), and there is one already.",
    413: "The body is larger than the service takes.",
    415: "The body is packed in another way than by gzip.",
    422: "The `Idempotency-Key` came before, with another request.",
    429: "Too many failed sign-ins of this account: try later, or use a token.",
    503: "The database is away. Try again.",
}
OPEN: list[Json] = []
"""`security` of an operation that anybody may use."""

COMMON_ERRORS = (400, 403, 404, 406, 503)
SIGN_IN_ERRORS = (401, 429)
WRITE_ERRORS = (409, 413, 415)

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

FOR_RECORDS = tuple(name for name, body_format in FORMATS.items() if not body_format.for_lists_only)
FOR_LISTS = tuple(FORMATS)


def error_name(status: int) -> str:
    """Return the name of an error among the components: `NotFound`."""
    return PHRASES[status].replace(" ", "")


def error_responses() -> Json:
    """Describe `components/responses`."""
    return {
        error_name(status): {
            "description": text,
            **({"headers": HEADERS[status]} if status in HEADERS else {}),
            "content": media_types(reference("Error"), FOR_RECORDS),
        }
        for status, text in ERRORS.items()
    }


def error_references(*statuses: int) -> Json:
    """Refer to the error responses of an operation."""
    return {
        str(status): {"$ref": f"#/components/responses/{error_name(status)}"}
        for status in sorted(statuses)
    }


def media_types(schema: Json, formats: Iterable[str]) -> Json:
    """Describe a body in formats; only JSON has a schema, which holds for the others."""
    return {
        FORMATS[name].media_type: {"schema": schema} if name == "json" else {} for name in formats
    }


def suffix_parameter(formats: Sequence[str]) -> Json:
    """Describe the suffix of the path."""
    named = {FOR_RECORDS: "Suffix", FOR_LISTS: "ListSuffix"}.get(tuple(formats))
    return shared_parameter(named) if named else _suffix(formats)


def shared_parameter(name: str) -> Json:
    """Refer to one of `components/parameters`."""
    return {"$ref": f"#/components/parameters/{name}"}


@cache
def parameters() -> Json:
    """Describe `components/parameters`; do not change what is returned."""
    return {
        "Suffix": _suffix(FOR_RECORDS),
        "ListSuffix": _suffix(FOR_LISTS),
        **{name: allow_empty(parameter) for name, parameter in _paging().items()},
        "IdempotencyKey": {
            "name": HEADER,
            "in": "header",
            "description": "Of your making, up to 255 visible ASCII characters. For a day a "
            "request with the same key does nothing more and has the first answer again.",
            "schema": {"type": "string", "pattern": "^[\\x21-\\x7e]{1,255}$"},
        },
        "IfNoneMatch": {
            "name": "If-None-Match",
            "in": "header",
            "description": "`*`: only a new record is written; where there is one already, 412.",
            "schema": {"type": "string", "enum": ["*"]},
        },
    }


def _paging() -> dict[str, Json]:
    return {
        "Limit": query_parameter(
            "limit",
            "How many at most.",
            {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
        ),
        "Cursor": query_parameter(
            "cursor",
            "Where the page before ended. It is part of the address in the header `Link`; don't "
            "make one. Pages that are followed by it neither repeat nor hide a record.",
            {"type": "string", "contentEncoding": "base64url"},
        ),
        "Offset": query_parameter(
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

NATURAL_NAMES: Mapping[str, str] = {kind.noun: kind.named for kind in KINDS.values() if kind.named}
"""What records of a kind are called in place of their numbers; others have numbers only."""


def path_key(name: str, of: str) -> Json:
    """Describe the number, or the name, of a record in the path."""
    called = f", or its {NATURAL_NAMES[of]}; a slash in it is `%2F`" if of in NATURAL_NAMES else ""
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": f"The number of the {of}{called}.",
        "schema": number_or_name(of),
        "example": 1,
    }


def number_or_name(of: str, lowest: int = 1) -> Json:
    """Describe what names a record of a kind."""
    number = NUMBER | {"minimum": lowest}
    return {"anyOf": [number, NAME]} if of in NATURAL_NAMES else number


def query_parameter(name: str, description: str, schema: Json) -> Json:
    """Describe an optional field of the query."""
    return {"name": name, "in": "query", "description": description, "schema": schema}


def allow_empty(parameter: Json) -> Json:
    """Let pages send a field empty where nothing was filled in; it counts as not sent."""
    return parameter | {"allowEmptyValue": True}


def json_body(schema: Json, *, required: bool = True, **other_types: Any) -> Json:
    """Describe a request body that is JSON; `other_types` are further media types."""
    return {
        "required": required,
        "content": {"application/json": {"schema": schema}, **other_types},
    }


def operation(tag: str, name: str, summary: str, text: str, answers: Json, **more: Any) -> Json:
    """Describe an operation; `more` are its other keys. Without `security` it takes credentials."""
    anybody = more.get("security") == OPEN
    statuses = COMMON_ERRORS if anybody else (*COMMON_ERRORS, *SIGN_IN_ERRORS)
    return {
        "operationId": name,
        "tags": [tag],
        "summary": summary,
        "description": text,
        **more,
        "responses": answers | error_references(*statuses),
    }


def answer(
    text: str, shape: str, formats: Sequence[str] = FOR_RECORDS, status: str = "200"
) -> dict[str, Json]:
    """Describe a successful answer of one shape."""
    return {status: {"description": text, "content": media_types(reference(shape), formats)}}


def keyed_answer(text: str, shape: str) -> dict[str, Json]:
    """Describe an object of records of one shape by their keys."""
    schema = {"type": "object", "additionalProperties": reference(shape)}
    return {"200": {"description": text, "content": media_types(schema, FOR_RECORDS)}}
