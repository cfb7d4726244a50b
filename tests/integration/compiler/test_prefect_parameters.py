"""What Prefect itself says of compiled parameters; its own checks, no server."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prefect.client.schemas.actions import DeploymentCreate
from prefect.server.schemas import actions as server
from prefect.utilities.schema_tools import is_valid_schema, validate

from jobauto_prefect.compiler import ParameterSchema, parameters
from jobauto_prefect.definitions import VariableType, check, parse, upgrade
from tests.support.corpus import needs_corpus, valid_documents
from tests.support.documents import RICHEST, smallest

FLOW_ID = "00000000-0000-0000-0000-000000000001"
KEYS = st.from_regex(r"[A-Z0-9_]{1,8}", fullmatch=True)
TEXTS = st.text(max_size=8) | st.sampled_from(["1", "2.5", "true", "", "a@b", "https://a/", "nan"])
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
RAW = VALUES | st.lists(VALUES, max_size=2) | st.dictionaries(TEXTS, VALUES, max_size=2)
VARIABLES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(VariableType),
        "required": st.booleans(),
        "defval": RAW,
        "options": st.lists(VALUES, max_size=4) | st.dictionaries(TEXTS, VALUES, max_size=4),
        "description": TEXTS,
    },
)


def made_up(content: dict[str, Any]) -> Any:
    """A value for a required parameter."""
    if "anyOf" in content:
        return made_up(content["anyOf"][0])
    if "enum" in content:
        return content["enum"][0]
    return {"integer": 7, "number": 7.5, "boolean": True}.get(content["type"], "made@up")


def own_defaults(compiled: ParameterSchema) -> dict[str, Any]:
    """The defaults and something for what is required."""
    properties = compiled.schema["properties"]
    required = {name: made_up(properties[name]) for name in compiled.schema["required"]}
    return dict(compiled.defaults) | required


def accepted(compiled: ParameterSchema, given_parameters: dict[str, Any]) -> None:
    """Fails where Prefect refuses a deployment, a run, or the values in its run form."""
    schema = dict(compiled.schema)
    is_valid_schema(schema)
    for create in (DeploymentCreate, server.DeploymentCreate):
        create(
            name="d",
            flow_id=FLOW_ID,
            parameters=given_parameters,
            parameter_openapi_schema=schema,
            enforce_parameter_schema=True,
        )
    validate(given_parameters, schema, raise_on_error=True)
    assert validate(given_parameters, schema) == [], "the run form checks formats, too"


@needs_corpus
@pytest.mark.parametrize("document", [pytest.param(d, id=n) for n, d in valid_documents().items()])
def test_prefect_accepts_a_run_of_a_real_definition_with_its_own_defaults(
    document: dict[str, Any],
) -> None:
    for each in (document, upgrade(document).document):
        compiled = parameters(parse(each), "cs")
        accepted(compiled, own_defaults(compiled))


def test_prefect_accepts_the_references_of_the_service_which_no_schema_names() -> None:
    compiled = parameters(parse(RICHEST))
    assert "jobauto" not in compiled.schema["properties"]
    ids = {"event": 1, "rule": 2, "task": "3"}
    accepted(compiled, own_defaults(compiled) | {"jobauto": ids})


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(KEYS, VARIABLES, max_size=4))
def test_prefect_accepts_the_defaults_of_any_definition(environment: dict[str, Any]) -> None:
    document = smallest(environment=environment)
    report = check(document)
    if report.valid:
        compiled = parameters(report.definition())
        accepted(compiled, own_defaults(compiled))


@settings(max_examples=80, deadline=None)
@given(VARIABLES, RAW)
def test_what_a_schema_says_it_accepts_is_what_prefect_accepts_in_a_deployment(
    variable: dict[str, Any], value: Any
) -> None:
    report = check(smallest(environment={"KEY": variable}))
    if not report.valid or variable.get("type") == "password":
        return
    compiled = parameters(report.definition())
    try:
        server.DeploymentCreate(
            name="d",
            flow_id=FLOW_ID,
            parameters={"KEY": value},
            parameter_openapi_schema=dict(compiled.schema) | {"required": []},
            enforce_parameter_schema=True,
        )
    except ValueError:
        assert not compiled.accepts("KEY", value)
    else:
        assert compiled.accepts("KEY", value)


@pytest.mark.parametrize("kind", ["string", "integer", "float", "url", "email", "set"])
@pytest.mark.parametrize("default", [None, "", "1"])
@pytest.mark.parametrize("options", [[], ["1", "2"]])
def test_a_run_may_leave_empty_what_is_optional(
    kind: str, default: str | None, options: list[str]
) -> None:
    variable = {"type": kind, "defval": default, "options": options}
    compiled = parameters(parse(smallest(environment={"KEY": variable})))
    validate({"KEY": None}, dict(compiled.schema), raise_on_error=True)
    validate({}, dict(compiled.schema), raise_on_error=True)
