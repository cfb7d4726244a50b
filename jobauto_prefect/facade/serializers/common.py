"""What serializers of all records share."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from jobauto_prefect.ledger.base import Labelled
from jobauto_prefect.settings import Settings

JsonObject = dict[str, Any]


def timestamps(record: Any) -> JsonObject:
    """Return when a record came and last changed, and its labels where its kind has any."""
    labels = {"labels": record.labels} if isinstance(record, Labelled) else {}
    return labels | {
        "created_at": isoformat(record.created_at),
        "updated_at": isoformat(record.updated_at),
    }


def isoformat(instant: datetime | None) -> str | None:
    """Write a time in ISO 8601; None stays None."""
    return instant.isoformat() if instant else None


def pick_fields(record: object, *names: str) -> JsonObject:
    """Return these attributes of a record by name."""
    return {name: getattr(record, name) for name in names}


def key_by_id(records: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return a list as clients get it: record id -> record."""
    return {str(record["id"]): record for record in records}


def prefect_link(settings: Settings, path: str, object_id: object) -> str | None:
    """Return the address of an object in Prefect's pages; None where there is no object yet."""
    return f"{settings.prefect_ui}/{path}/{object_id}" if object_id else None


def tag_link(settings: Settings, tag: str) -> str:
    """Return the address of the deployments that bear a tag."""
    return f"{settings.prefect_ui}/deployments?{urlencode({'deployments.tags.name': tag})}"
