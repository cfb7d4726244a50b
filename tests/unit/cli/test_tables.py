"""The columns of `list` commands read keys that records have in the published contract."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from jobauto_prefect.cli.records import tables
from jobauto_prefect.cli.records.lists import ListedKind
from jobauto_prefect.facade.kinds.registry import BY_ITEM
from tests.support.paths import ROOT

CONTRACT = ROOT / "api" / "openapi.json"
KINDS = [kind for kind in vars(tables).values() if isinstance(kind, ListedKind)]


class Reads(dict[str, Any]):
    """A record that notes which of its keys are read."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.keys_read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.keys_read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.keys_read.add(key)
        return super().get(key, default)


@pytest.mark.parametrize("listed", KINDS, ids=lambda listed: listed.kind.item)
def test_columns_read_published_keys(listed: ListedKind) -> None:
    published = _keys(listed.kind.item)
    record = Reads(dict.fromkeys(published) | {"roles": [], "values": {}, "fields": []})

    for column in listed.columns.values():
        column(record, {name: {} for name in listed.refers})

    assert record.keys_read
    assert record.keys_read - published == set()


def _keys(item: str) -> set[str]:
    schemas = json.loads(CONTRACT.read_text())["components"]["schemas"]
    return set(_properties(schemas, schemas[BY_ITEM[item].answer.__name__]))


def _properties(schemas: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        yield from _properties(schemas, schemas[schema["$ref"].rpartition("/")[2]])
    yield from schema.get("properties", {})
    for part in schema.get("allOf", ()):
        yield from _properties(schemas, part)
