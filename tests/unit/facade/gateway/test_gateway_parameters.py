"""Which parameters of runs, deployments and schedules are passed on to Prefect."""

from typing import Any

import pytest

from jobauto_prefect.definitions import parse
from jobauto_prefect.errors import InvalidInput
from jobauto_prefect.facade.gateway.policy.body_rules import require_declared
from tests.support.definitions import PROBE

DEFINITION = parse(
    PROBE | {"environment": PROBE["environment"] | {"1ST": {"type": "string"}, "HOME": {}}}
)


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"parameters": None},
        {"parameters": {"GREETING": "hi", "p_1ST": "x", "HOME": "/x", "jobauto": {"job": 1}}},
        [{"parameters": {"COUNT": 1}}, {"name": "x"}],
        {"schedules": [{"parameters": {"LOUD": True}}], "tags": ["BASH_ENV"]},
    ],
)
def test_declared_parameters_are_passed_on(body: Any) -> None:
    require_declared(body, DEFINITION)


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({"parameters": {"GREETNG": "x"}}, {"/parameters/GREETNG": "did you mean 'GREETING'?"}),
        ({"parameters": {"1ST": "x"}}, {"/parameters/1ST": "did you mean 'p_1ST'?"}),
        ({"parameters": {"PASSWORD": "x"}}, {"/parameters/PASSWORD": "is a secret"}),
        (
            [{}, {"parameters": {"BASH_ENV": "x", "jobauto ": {}}}],
            {"/1/parameters/BASH_ENV": "only a definition", "/1/parameters/jobauto ": "'jobauto'"},
        ),
        (
            {"parameters": {"X/Y": 1}, "schedules": [{}, {"parameters": {"IFS": " "}}]},
            {"/parameters/X~1Y": "declares no", "/schedules/1/parameters/IFS": "only a definition"},
        ),
    ],
)
def test_all_others_are_refused_at_once(body: Any, faults: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        require_declared(body, DEFINITION)
    found = {fault.pointer: fault.message for fault in refused.value.faults}
    assert found.keys() == faults.keys()
    assert all(faults[pointer] in message for pointer, message in found.items())
