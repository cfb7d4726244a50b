"""Applications as Prefect flows: names, parameters, and how they are called."""

import inspect
from datetime import UTC, datetime
from typing import Any

import pytest
from prefect import Flow
from prefect.utilities.callables import parameters_to_args_kwargs

from jobauto_prefect.compiler import parameters
from jobauto_prefect.definitions import parse
from jobauto_prefect.engine import applications
from jobauto_prefect.engine.applications import compile_flow, run_application
from jobauto_prefect.errors import NotReady
from jobauto_prefect.runtime.protocol import ApplicationDocument
from jobauto_prefect.settings import Settings
from tests.support.corpus import valid_documents

ODD: dict[str, Any] = {
    "$schema": "https://example.com/application.schema.json",
    "name": "Import / Export <R&D> 100%",
    "description": "Moves things",
    "executable": "move",
    "version": "1.4",
    "environment": {
        "1FOO": {"type": "integer", "defval": "7"},
        "_FOO": {"type": "string", "required": True},
        "SELF": {"type": "bool"},
        "PASSWORD": {"type": "password", "defval": "hunter2"},
    },
}
DOCUMENTS = {"odd": ODD, **valid_documents()}


def compiled(document: dict[str, Any]) -> Flow[Any, Any]:
    described = ApplicationDocument(
        id=3, document=document, parameter_keys={}, updated_at=datetime.now(UTC)
    )
    return compile_flow(described, Settings())


def test_names_and_keys_that_prefect_or_python_refuse_are_made_to_fit() -> None:
    flow = compiled(ODD)
    assert flow.name == "Import - Export -R-D- 100-"
    assert flow.version == "1.4"
    assert flow.description is not None
    assert "# Import / Export" in flow.description
    assert list(flow.parameters.properties) == ["p_1FOO", "p__FOO", "SELF"]
    assert list(inspect.signature(flow.fn).parameters) == ["p_1FOO", "p__FOO", "SELF", "jobauto"]
    assert "hunter2" not in str(flow.parameters)


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_a_flow_takes_what_its_schema_names(document: dict[str, Any]) -> None:
    flow = compiled(document)
    schema = parameters(parse(document))
    assert flow.parameters.model_dump()["properties"] == schema.schema["properties"]
    given = dict.fromkeys(schema.parameter_keys, "x") | {"jobauto": {"job": 1}}
    positional, named = parameters_to_args_kwargs(flow.fn, given)
    assert (positional, named) == ((), given)


def test_only_what_must_be_given_has_no_default() -> None:
    signature = inspect.signature(compiled(ODD).fn)
    assert signature.bind(p__FOO="x").arguments == {"p__FOO": "x"}
    assert signature.parameters["p_1FOO"].default == 7
    with pytest.raises(TypeError, match="p__FOO"):
        signature.bind()


async def test_outside_a_deployment_it_says_what_to_do() -> None:
    with pytest.raises(NotReady, match="run template"):
        await run_application(Settings())


def test_the_module_has_flows_and_nothing_else() -> None:
    with pytest.raises(AttributeError, match="app_x"):
        applications.app_x  # noqa: B018
