"""Parameters: one object documents each, and the reader of the request validates it.

FastAPI does not validate them: all errors are reported together, in the dialect's terms.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, params
from pydantic import WithJsonSchema

from jobauto_prefect.facade.formats import FORMATS
from jobauto_prefect.facade.http.field_types import READ_INTEGER
from jobauto_prefect.facade.http.idempotency import HEADER
from jobauto_prefect.kinds import Kind
from jobauto_prefect.ledger.base import BIGGEST_ID

Json = dict[str, Any]

MAX_PAGE = 1000
FOR_RECORDS = tuple(name for name, body_format in FORMATS.items() if not body_format.for_lists_only)
FOR_LISTS = tuple(FORMATS)

NAME: Json = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "[^0-9]"}
"""A record's name in place of its number: not only digits."""


def documented(
    where: Callable[..., Any],
    schema: Json,
    description: str,
    *,
    name: str | None = None,
    **keywords: Any,
) -> Any:
    """Return the type of a parameter that FastAPI documents and does not validate.

    `keywords` are more of the document: `example`, `allowEmptyValue`, the `name` it has there
    where the route has another one (`shown`), or among the shared parameters (`shared`).
    """
    # FastAPI drops a default in a schema, and has no other way to document it.
    kept = {"x-default" if key == "default" else key: value for key, value in schema.items()}
    kept |= {f"x-{key}": value for key, value in keywords.items()}
    return Annotated[
        Any, WithJsonSchema(kept), where(alias=name, description=description)
    ]  # fmt: skip


def dependency_on(parameters: Iterable[Any]) -> params.Depends:
    """Return a dependency that has these parameters, for FastAPI to document."""

    def declared(**_values: Any) -> None:
        """Read nothing."""

    declared.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                f"parameter_{number}",
                inspect.Parameter.KEYWORD_ONLY,
                annotation=each,
                default=inspect.Parameter.empty if _is_in(params.Path, each) else None,
            )
            for number, each in enumerate(parameters)
        ]
    )
    dependency: params.Depends = Depends(declared)
    return dependency


def query_names(parameters: Iterable[Any]) -> Iterator[str]:
    """Yield the names of those parameters that are in the query."""
    for each in parameters:
        if _is_in(params.Query, each):
            yield each.__metadata__[-1].alias


def _is_in(place: type[params.Param], declared: Any) -> bool:
    return isinstance(declared.__metadata__[-1], place)


def number_or_name(kind: Kind, lowest: int = 1) -> Json:
    """Return the schema of a record's number or name."""
    number: Json = {"type": "integer", "minimum": lowest, "maximum": BIGGEST_ID}
    return {"anyOf": [number, NAME]} if kind.named else number


def path_key(kind: Kind, name: str) -> Any:
    """Return the type of the number, or the name, of a record in the path."""
    called = f", or its {kind.named}. Write a slash in it as `%2F`" if kind.named else ""
    return documented(
        Path, number_or_name(kind), f"The number of the {kind.noun}{called}.",
        name=name, shown=kind.parameter, example=1,
    )  # fmt: skip


def number_key(name: str, noun: str) -> Any:
    """Return the type of a number in the path, which FastAPI judges."""
    schema = {"type": "integer", "minimum": 1, "maximum": BIGGEST_ID}
    return Annotated[
        int,
        READ_INTEGER,
        WithJsonSchema({**schema, "x-shown": name, "x-example": 1}),
        Path(description=f"The number of the {noun}."),
    ]


def query(name: str, schema: Json, description: str, **keywords: Any) -> Any:
    """Return the type of an optional field of the query."""
    return documented(Query, schema, description, name=name, **keywords)


def suffix(formats: Iterable[str], **keywords: Any) -> Any:
    """Return the type of the suffix of a path."""
    return documented(
        Path, {"type": "string", "enum": list(formats)},
        "The format of the answer, errors included.", name="suffix", example="json", **keywords,
    )  # fmt: skip


SUFFIX = suffix(FOR_RECORDS, shared="Suffix")
LIST_SUFFIX = suffix(FOR_LISTS, shared="ListSuffix")
PAGING = (
    query(
        "limit", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
        "How many records to return at most.",
        shared="Limit", allowEmptyValue=True,
    ),
    query(
        "cursor", {"type": "string", "contentEncoding": "base64url"},
        "Where the previous page ended. It is part of the address in the header `Link`; do not "
        "construct it yourself. If you follow these addresses, no record is repeated or left out.",
        shared="Cursor", allowEmptyValue=True,
    ),
    query(
        "offset", {"type": "integer", "minimum": 0, "maximum": BIGGEST_ID, "default": 0},
        "How many records to skip. Better follow the header `Link`.",
        shared="Offset", allowEmptyValue=True,
    ),
)  # fmt: skip
IDEMPOTENCY_KEY = documented(
    Header, {"type": "string", "pattern": "^[\\x21-\\x7e]{1,255}$"},
    "A key of your choice, up to 255 visible ASCII characters. For a day, another request with "
    "the same key changes nothing and gets the first answer again.",
    name=HEADER, shared="IdempotencyKey",
)  # fmt: skip
IF_NONE_MATCH = documented(
    Header, {"type": "string", "enum": ["*"]},
    "`*`: only a new record is written; if it exists already, 412.",
    name="If-None-Match", shared="IfNoneMatch",
)  # fmt: skip
