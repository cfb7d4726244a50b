"""What lists can be ordered by: every stored member of a record, and nothing it does not show."""

from typing import Any

import pytest
from sqlalchemy import JSON, Column, Text, inspect

from jobauto_prefect.facade.kinds.registry import RESOURCES
from jobauto_prefect.facade.kinds.resource import Resource
from jobauto_prefect.facade.openapi import document


def _fields(name: str) -> set[str]:
    """Of a schema of the document, with those of the schemas it is made of."""
    schema: dict[str, Any] = document()["components"]["schemas"][name]
    found = set(schema.get("properties", {}))
    for part in schema.get("allOf", ()):
        found |= set(part.get("properties", {}))
        found |= _fields(part["$ref"].rpartition("/")[2]) if "$ref" in part else set()
    return found


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.kind.item)
def test_orders_are_the_stored_fields_but_texts_objects_and_secrets(resource: Resource) -> None:
    shown = _fields(resource.answer.__name__)
    stored = {
        attribute.key
        for attribute in inspect(resource.record).column_attrs
        if isinstance(attribute.columns[0], Column)
        and not isinstance(attribute.columns[0].type, JSON | Text)
    }
    assert set(resource.orders) == (stored & shown) - {"db_password"}
    assert resource.orders[0] == "id"
