"""The base models of answers, and how fields are read from records."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobauto_prefect.settings import Settings


class Answer(BaseModel):
    """The base of all answers; schemas are built only for the document."""

    model_config = ConfigDict(defer_build=True)


class Record(Answer):
    """A record, which has an address and is in a list.

    The `title` of a field is its label on pages, if that differs from its name.
    """

    id: int = Field(description="The id of the record.")
    created_at: datetime = Field(title="Created", description="When it was created.")

    @classmethod
    def field_names(cls) -> Collection[str]:
        """Return the names of all fields in responses."""
        return cls.model_fields

    @classmethod
    def field_titles(cls) -> dict[str, str]:
        """Return the titles of the fields that have one."""
        return {name: field.title for name, field in cls.model_fields.items() if field.title}


class Timed(Record):
    """A record that can change."""

    updated_at: datetime = Field(title="Changed", description="When it was last changed.")


class Labelled(Timed):
    """A record that files can own."""

    labels: list[str] = Field(
        description="The sets of files that own the record; see `jobauto apply --prune`."
    )


class Owned(Labelled):
    """A record that belongs to a company or is shared."""

    company_id: int | None = Field(
        description="The company it belongs to; only this company's run templates can use it. "
        "null: it is shared."
    )


class ErrorSummary(Answer):
    """The fields of every error, without its details."""

    error: str = Field(description="The name of the status.")
    message: str = Field(description="One line for people.")
    request_id: str = Field(
        description="The id of the request, as in the service's log and the audit log."
    )


class Fault(Answer):
    """An error in a request, or in the data that a job produced."""

    pointer: str = Field(description="JSON pointer to the error; empty: the request as a whole.")
    rule: str = Field(description="Short name of the violated rule.")
    message: str = Field(description="One line for people.")
    line: int | None = Field(default=None, description="Line in the body, from 1.")
    column: int | None = Field(default=None, description="Column in the body, from 1.")


class Formats(Answer):
    """The supported formats, in answer to a request for another format."""

    formats: list[str] = Field(description="The supported formats.")


class Error(ErrorSummary):
    """Every error has this form, in the requested format."""

    details: list[Fault] | Formats | None = Field(
        default=None,
        description="Every error in the request, or the supported formats.",
    )


class Difference(Answer):
    """The value in Prefect, and the expected one."""

    prefect: Any = Field(description="The value in Prefect; null: none.")
    record: Any = Field(description="The expected value, by the records.")


JsonObject = dict[str, Any]


def serialize_fields(model: type[BaseModel], record: object, **computed: Any) -> JsonObject:
    """Return the required fields of a model: computed values, and the others from the record.

    Fields with a default are left out: they are added elsewhere.
    """
    return {
        name: computed[name] if name in computed else _to_json(getattr(record, name))
        for name in _names_of(model)
    }


@cache
def _names_of(model: type[BaseModel]) -> Sequence[str]:
    """Return the required fields; those that all kinds share come last, except `id`."""
    names = [name for name, declared in model.model_fields.items() if declared.is_required()]
    return sorted(names, key=lambda name: name in Labelled.model_fields and name != "id")


def _to_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def isoformat(instant: datetime | None) -> str | None:
    """Write a time in ISO 8601; None stays None."""
    return instant.isoformat() if instant else None


def key_by_id(records: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return a list as sent to clients: record id -> record."""
    return {str(record["id"]): record for record in records}


def prefect_link(settings: Settings, path: str, object_id: object) -> str | None:
    """Return the address of an object in Prefect's pages; None if there is no object yet."""
    return f"{settings.prefect_ui}/{path}/{object_id}" if object_id else None


def tag_link(settings: Settings, tag: str) -> str:
    """Return the address of the deployments with a tag."""
    return f"{settings.prefect_ui}/deployments?{urlencode({'deployments.tags.name': tag})}"
