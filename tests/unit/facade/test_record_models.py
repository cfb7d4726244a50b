"""One model describes a record: its fields, what they mean, and the columns of its lists."""

import pytest
from pydantic import BaseModel

from jobauto_prefect.facade.formats import field_label
from jobauto_prefect.facade.kinds.registry import RESOURCES, field_titles
from jobauto_prefect.facade.kinds.resource import Resource
from jobauto_prefect.facade.openapi.document import document
from jobauto_prefect.kinds import KINDS

MODELS = {model.__name__: model for model in (resource.answer for resource in RESOURCES)}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.kind.item)
def test_columns_are_fields_of_the_record(resource: Resource) -> None:
    assert set(resource.kind.columns) <= set(resource.answer.field_names())


@pytest.mark.parametrize("model", MODELS.values(), ids=str)
def test_every_field_is_described_in_the_model_and_so_in_the_document(
    model: type[BaseModel],
) -> None:
    properties = document()["components"]["schemas"][model.__name__]["properties"]
    described = {name: field.description for name, field in model.model_fields.items()}
    assert all(described.values())
    assert {name: schema["description"] for name, schema in properties.items()} == described


@pytest.mark.parametrize(
    ("item", "field", "label"),
    [
        ("job", "exitcode", "Exit code"),
        ("job", "stdout", "Standard output"),
        ("app", "cmdparamsTemplate", "Command line"),
        ("app", "defval", "Default value"),
        ("app", "updated_at", "Changed"),
        ("runtemplate", "app_id", "Application"),
        ("event", "flow_run_id", "Flow run ID"),
        ("calendar", "end", "End"),
        ("", "queue_priority", "Queue priority"),
    ],
)
def test_pages_label_a_field_by_its_title_else_by_its_name(
    item: str, field: str, label: str
) -> None:
    assert field_label(field, field_titles(item)) == label


def test_no_title_of_a_page_is_in_the_document() -> None:
    for name in (model.__name__ for model in (resource.answer for resource in RESOURCES)):
        properties = document()["components"]["schemas"][name]["properties"]
        assert all("title" not in schema for schema in properties.values())


def test_every_resource_has_a_kind() -> None:
    assert {resource.kind.item: resource.kind.collection for resource in RESOURCES} == {
        kind.item: kind.collection for kind in KINDS.values()
    }
