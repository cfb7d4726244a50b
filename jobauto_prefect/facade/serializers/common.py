"""What serializers of all records share."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from pydantic import BaseModel

from jobauto_prefect.facade.models.common import Labelled
from jobauto_prefect.settings import Settings

JsonObject = dict[str, Any]


def serialize_fields(model: type[BaseModel], record: object, **computed: Any) -> JsonObject:
    """Return the fields that a model names: those computed, the others as the record has them.

    A field with a default is left out: it is added elsewhere.
    """
    return {
        name: computed[name] if name in computed else _to_json(getattr(record, name))
        for name in _names_of(model)
    }


@cache
def _names_of(model: type[BaseModel]) -> Sequence[str]:
    """List the fields that are always shown; those that all kinds share are the last but `id`."""
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
    """Return a list as clients get it: record id -> record."""
    return {str(record["id"]): record for record in records}


def prefect_link(settings: Settings, path: str, object_id: object) -> str | None:
    """Return the address of an object in Prefect's pages; None where there is no object yet."""
    return f"{settings.prefect_ui}/{path}/{object_id}" if object_id else None


def tag_link(settings: Settings, tag: str) -> str:
    """Return the address of the deployments that bear a tag."""
    return f"{settings.prefect_ui}/deployments?{urlencode({'deployments.tags.name': tag})}"
