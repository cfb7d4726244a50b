"""One model describes a record: its fields, what they mean, and the columns of its lists."""

import pytest
from pydantic import BaseModel

from jobauto_prefect.definitions import schema as definition_schema
from jobauto_prefect.facade.models.applications import APPLICATION_KIND
from jobauto_prefect.facade.models.catalog import KINDS, RECORD_MODELS
from jobauto_prefect.facade.openapi.document import document
from jobauto_prefect.facade.resources.registry import RESOURCES

MODELS = {model.__name__: model for model in RECORD_MODELS.values()}


@pytest.mark.parametrize("item", RECORD_MODELS)
def test_columns_are_fields_of_the_record(item: str) -> None:
    assert set(KINDS[item].columns) <= set(RECORD_MODELS[item].model_fields)


def test_columns_of_applications_are_fields_of_the_definition_or_our_own() -> None:
    properties = document()["components"]["schemas"]["Application"]["properties"]
    assert set(APPLICATION_KIND.columns) <= {*definition_schema()["properties"], *properties}


@pytest.mark.parametrize("model", MODELS.values(), ids=str)
def test_every_field_is_described_in_the_model_and_so_in_the_document(
    model: type[BaseModel],
) -> None:
    properties = document()["components"]["schemas"][model.__name__]["properties"]
    described = {name: field.description for name, field in model.model_fields.items()}
    assert all(described.values())
    assert {name: schema["description"] for name, schema in properties.items()} == described


def test_every_resource_has_a_kind() -> None:
    assert {resource.item: resource.collection for resource in RESOURCES} == {
        kind.item: kind.collection for kind in KINDS.values()
    }
