"""Bodies, narrowed; what may be sent; what the trail repeats of it."""

from functools import partial
from typing import Any

import pytest

from jobauto_prefect.errors import Forbidden, InvalidInput
from jobauto_prefect.facade.gateway.audit import describe_changes
from jobauto_prefect.facade.gateway.policy.body_filters import (
    narrow_filter,
    refuse_templates,
    requested_ids,
    require_allowed_fields,
)

A, B, C = ("0000000a" + "-0000" * 3 + "-000000000000", "b", "c")


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (None, [A, B]),
        ({}, [A, B]),
        ({"deployments": None}, [A, B]),
        ({"deployments": {"id": {"any_": [B, C]}}}, [B]),
        ({"deployments": {"id": {"any_": [C]}}}, []),
        ({"deployments": {"id": {"any_": [A.upper()]}}}, [A]),
        ({"deployments": {"operator": "and_", "name": {"like_": "x"}}}, [A, B]),
    ],
)
def test_a_filter_is_kept_within_what_is_allowed(body: Any, kept: list[str]) -> None:
    narrowed = narrow_filter(body, "deployments", "id", {A, B})
    assert narrowed["deployments"]["id"]["any_"] == kept


def test_other_conditions_stay() -> None:
    body = {"limit": 5, "deployments": {"id": {"not_any_": [B]}, "name": {"like_": "x"}}}
    narrowed = narrow_filter(body, "deployments", "id", {A})
    assert narrowed == {
        "limit": 5,
        "deployments": {"id": {"not_any_": [B], "any_": [A]}, "name": {"like_": "x"}},
    }


@pytest.mark.parametrize("operator", ["or_", "xor", "", 0, []])
def test_a_filter_that_joins_by_or_is_refused(operator: Any) -> None:
    body = {"deployments": {"operator": operator}}
    with pytest.raises(Forbidden):
        narrow_filter(body, "deployments", "id", {A})
    with pytest.raises(Forbidden):
        requested_ids(body, "deployments", "id")
    of_member = {"flow_runs": {"deployment_id": {"operator": operator, "is_null_": False}}}
    with pytest.raises(Forbidden):
        narrow_filter(of_member, "flow_runs", "deployment_id", {A})


@pytest.mark.parametrize(
    "body",
    [
        [],
        "x",
        1,
        {"deployments": []},
        {"deployments": {"id": 1}},
        {"deployments": {"id": {"any_": [1]}}},
    ],
)
def test_what_is_no_filter_is_refused(body: Any) -> None:
    with pytest.raises(InvalidInput):
        narrow_filter(body, "deployments", "id", {A})


def test_fields_that_say_nothing_or_nothing_new_pass() -> None:
    current = {"work_queue_name": "default"}
    body = {"name": "x", "job_variables": {}, "work_queue_name": "default", "path": None}
    for is_new in (True, False):
        require = partial(require_allowed_fields, allowed={"name"}, current=current, is_new=is_new)
        require(body)
        with pytest.raises(Forbidden, match="path, work_queue_name"):
            require(body | {"path": "/", "work_queue_name": "x"})
        with pytest.raises(Forbidden, match="job_variables"):
            require([{}, {"job_variables": {"env": {}}}])


@pytest.mark.parametrize("value", [None, "", [], {}])
def test_what_is_there_is_not_emptied_and_what_is_new_takes_it(value: Any) -> None:
    current = {"work_queue_name": "default"}
    body = {"work_queue_name": value}
    require_allowed_fields(body, {"name"}, current, is_new=True)
    with pytest.raises(Forbidden, match="work_queue_name"):
        require_allowed_fields(body, {"name"}, current, is_new=False)


@pytest.mark.parametrize("kind", ["workspace_variable", "jinja", "Workspace_Variable", 1, []])
def test_what_prefect_would_look_up_is_refused_wherever_it_is(kind: Any) -> None:
    with pytest.raises(Forbidden):
        refuse_templates({"parameters": {"x": [{"y": {"__prefect_kind": kind}}]}})
    refuse_templates({"parameters": {"x": {"__prefect_kind": "json", "value": "1"}}})


def test_secrets_are_masked_and_long_values_cut_in_what_is_written_down() -> None:
    body = {
        "name": "x",
        "data": {"password": "s3cret"},
        "job_variables": {"env": {"X": "s3cret"}},
        "parameters": {"API_TOKEN": "s3cret", "CITY": "Brno", "deep": [{"password": "s3cret"}]},
        "value": "s3cret",
        "description": "long " * 2000,
        "same": 1,
    }
    changes = describe_changes(body, {"same": 1, "name": "before", "data": {"password": "s3cret"}})
    assert "s3cret" not in str(changes)
    assert changes["name"] == ["before", "x"]
    assert changes["parameters"][1]["CITY"] == "Brno"
    assert len(changes["description"][1]) < 5000
    assert "same" not in changes
