"""Plans: names, tags, parameters, schedule and description of flows and deployments."""

from dataclasses import replace
from typing import Any

import pytest

from jobauto_prefect.compiler import SchedulePlan, TemplateFacts, deployment_plan, flow_plan
from jobauto_prefect.definitions import Definition, parse
from jobauto_prefect.errors import InvalidInput

USED = {"type": "integer", "description": "How full"}
DOCUMENT: dict[str, Any] = {
    "$schema": "https://example.com/schema.json",
    "name": {"en": "Disk report", "cs": "Zpráva o disku"},
    "description": {"en": "Says how full a disk is.", "cs": "Řekne, jak je disk plný."},
    "executable": "disk-report",
    "version": "1.2.0",
    "license": "MIT",
    "homepage": "https://example.com/disk",
    "category": "Tools",
    "requirements": ["disk", "mail"],
    "uuid": "0f9c0a54-1111-4222-8333-444455556666",
    "environment": {
        "MOUNT": {"type": "string", "description": "Where | it is", "required": True},
        "LIMIT": {"type": "integer", "defval": "90"},
        "TOKEN": {"type": "password", "defval": "hunter2"},
    },
    "exitCodes": {
        "0": {"description": "All is well", "severity": "success"},
        "3": {"description": {"en": "Disk is full", "cs": "Disk je plný"}, "retry": True},
    },
    "produces": {"report": {"format": "json", "fields": {"used": USED}}},
    "consumes": {"mounts": {"format": "json", "fields": {"mount": {"target": "MOUNT"}}}},
    "events": {
        "emits": {"disk.full": {"operation": "any", "description": "A disk is full"}},
        "consumes": {"disk.added": {"format": "json", "description": {"cs": "Nový disk"}}},
    },
}

FACTS = TemplateFacts(
    template_id=12,
    name="Nightly",
    app_id=7,
    company_name="ACME s.r.o.",
    company_slug="acme",
    pool="jobauto",
    values={"MOUNT": "/srv", "LIMIT": "80"},
    interval="d",
    timezone="Europe/Prague",
    record_url="https://jobs.example.com/api/v1/runtemplate/12.json",
    topics=("night", "bank"),
    app_topics=("bank",),
)


@pytest.fixture
def definition() -> Definition:
    return parse(DOCUMENT)


def test_a_deployment_bears_company_and_template_and_shows_the_effective_values(
    definition: Definition,
) -> None:
    plan = deployment_plan(FACTS, definition)
    assert plan.name == "acme - Nightly"
    assert plan.flow.name == "Disk report"
    assert plan.entrypoint == "jobauto_prefect.engine.applications.app_7"
    assert plan.tags == ("company:acme", "topic:night", "topic:bank")
    assert plan.flow.tags == ("topic:bank",)
    assert plan.labels["jobauto.category"] == plan.flow.labels["jobauto.category"] == "Tools"
    assert "- **Category:** Tools" in plan.description
    assert plan.parameters == {"MOUNT": "/srv", "LIMIT": 80}
    assert plan.schedule == SchedulePlan("0 0 * * *", "Europe/Prague", active=True)
    assert plan.version == "1.2.0"
    assert not plan.paused


def test_of_many_topics_the_first_three_are_tags(definition: Definition) -> None:
    many = replace(FACTS, topics=("d", "b", "c", "a"), app_topics=("z", "y", "x", "w"))
    plan = deployment_plan(many, definition)
    assert plan.tags == ("company:acme", "topic:d", "topic:b", "topic:c")
    assert plan.flow.tags == ("topic:w", "topic:x", "topic:y")


def test_a_name_prefect_would_refuse_is_replaced(definition: Definition) -> None:
    plan = deployment_plan(replace(FACTS, name="In/Out & <all>\n100%"), definition)
    assert plan.name == "acme - In-Out - -all- 100-"


def test_a_shared_application_name_gets_a_part_of_the_uuid(definition: Definition) -> None:
    assert flow_plan(7, definition, "cs").name == "Zpráva o disku"
    shared = flow_plan(7, definition, "cs", name_is_shared=True)
    assert shared.name == "Zpráva o disku (0f9c0a54)"


def test_no_secret_is_in_a_plan(definition: Definition) -> None:
    facts = replace(FACTS, withheld={"LIMIT"})
    plan = deployment_plan(facts, definition)
    assert "TOKEN" not in plan.parameter_schema["properties"]
    assert "LIMIT" not in plan.parameter_schema["properties"]
    assert plan.parameters == {"MOUNT": "/srv"}
    assert "hunter2" not in str(plan)


def test_what_event_rules_give_a_run_may_be_made_without(definition: Definition) -> None:
    without = replace(FACTS, values={})
    assert "MOUNT" in deployment_plan(without, definition).parameter_schema["required"]
    mapped = deployment_plan(replace(without, mapped={"MOUNT"}), definition)
    assert "MOUNT" not in mapped.parameter_schema["required"]
    assert "MOUNT" in mapped.parameter_schema["properties"]


def test_a_value_that_does_not_fit_its_type_is_shown_as_it_is(definition: Definition) -> None:
    plan = deployment_plan(replace(FACTS, values={"MOUNT": "/", "LIMIT": "{MOST}"}), definition)
    assert plan.parameters["LIMIT"] == "{MOST}"
    limit = plan.parameter_schema["properties"]["LIMIT"]
    assert limit["anyOf"] == [
        {"title": "whole number", "type": "integer"},
        {"title": "text", "type": "string"},
    ]
    assert limit["title"] == "Limit"


def test_what_a_template_leaves_empty_is_no_parameter_of_its_deployment(
    definition: Definition,
) -> None:
    plan = deployment_plan(replace(FACTS, values={"MOUNT": "/srv", "LIMIT": ""}), definition)
    assert plan.parameters == {"MOUNT": "/srv"}
    assert plan.parameter_schema["properties"]["LIMIT"]["type"] == "integer"


def test_a_required_default_that_a_template_empties_is_not_required_of_automations() -> None:
    mount = {"type": "string", "defval": "/", "required": True}
    definition = parse({**DOCUMENT, "environment": {"MOUNT": mount}})
    full, empty = (
        deployment_plan(replace(FACTS, values=values), definition).parameter_schema["required"]
        for values in ({}, {"MOUNT": ""})
    )
    assert (full, empty) == (["MOUNT"], [])


@pytest.mark.parametrize(
    "facts",
    [replace(FACTS, interval="n"), replace(FACTS, delay=30), replace(FACTS, interval="c")],
    ids=["never", "delayed", "custom without cron"],
)
def test_what_prefect_can_not_schedule_has_no_schedule(
    definition: Definition, facts: TemplateFacts
) -> None:
    assert deployment_plan(facts, definition).schedule is None


def test_an_inactive_template_is_paused_with_its_schedule(definition: Definition) -> None:
    plan = deployment_plan(replace(FACTS, active=False), definition)
    assert plan.paused
    assert plan.schedule is not None
    assert not plan.schedule.active


def test_an_unusable_cron_expression_is_refused(definition: Definition) -> None:
    with pytest.raises(InvalidInput, match="five fields"):
        deployment_plan(replace(FACTS, interval="c", cron="often"), definition)


def test_the_description_says_everything_a_reader_asks(definition: Definition) -> None:
    described = deployment_plan(replace(FACTS, note="Ask Jana.", language="cs"), definition)
    lines = described.description.splitlines()
    assert lines[0].startswith("**[Nightly](https://jobs.example.com/")
    assert "**ACME s.r.o.**" in lines[0]
    for expected in (
        "Ask Jana.",
        "# Zpráva o disku",
        "Řekne, jak je disk plný.",
        "- **License:** MIT",
        "- **Homepage:** <https://example.com/disk>",
        "- `MOUNT` (string, required): Where | it is",
        "- `LIMIT` (integer, default `90`)",
        "- `TOKEN` (password, default ••••)",
        "- `3` (error, tried again): Disk je plný",
        "- `report` (json)",
        "  - `used` (integer): How full",
        "  - `mount` → `MOUNT`",
        "- `disk.full` (any): A disk is full",
        "## Triggered by",
        "- `disk.added` (json): Nový disk",
    ):
        assert expected in lines
