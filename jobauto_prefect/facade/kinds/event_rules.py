"""Event rules, as shown and written."""

import json
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, WithJsonSchema, field_validator
from pydantic.json_schema import JsonSchemaValue

from jobauto_prefect.errors import Forbidden
from jobauto_prefect.facade.answers import JsonObject, Labelled, prefect_link, serialize_fields
from jobauto_prefect.facade.formats.html.page_language import Shown, Text
from jobauto_prefect.facade.http.field_types import READ_INTEGER, SIGNED, Boolean, OrText
from jobauto_prefect.facade.http.requests import parse as parse_body
from jobauto_prefect.facade.kinds.resource import ENABLED, Resource, reference
from jobauto_prefect.facade.writes.base import (
    OBJECT_TEXT,
    LabelledBody,
    Ref,
    ShortText,
    WriteRequest,
    WriteResult,
    apply_fields,
    parse_object,
    require_fields,
)
from jobauto_prefect.facade.writes.rule_checks import check_rule
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.settings import Settings

Operation = Literal["any", "create", "update", "delete"]
End = Literal["success", "warning", "failure", "any"]


class EventRule(Labelled):
    """Starts a run template when an event source changes, or when a job of another one ends."""

    event_source_id: int | None = Field(
        description="The event source whose changes start the rule."
    )
    runtemplate_source_id: int | None = Field(
        title="After run template",
        description="The run template whose jobs start the rule when they end.",
    )
    runtemplate_id: int = Field(description="The run template that the rule starts.")
    evidence: str | None = Field(description="The kind of record whose changes count; null: any.")
    operation: Operation = Field(description="Which changes count.")
    on: End = Field(description="For `runtemplate_source_id`: which ends of its jobs count.")
    fan_out: bool = Field(
        description="Whether to start a job for each element of a list. At most one of the mapped "
        "values may be a list."
    )
    enabled: bool = Field(description="Whether it may be used.")
    priority: int = Field(description="Rules with a higher priority come first.")
    env_mapping: dict[str, Any] = Field(
        description="Selectors in the event, by environment key; in requests also the JSON text of "
        "such an object."
    )
    prefect_url: str | None = Field(
        description="Address of its automation's page in Prefect's UI; null: it is not in Prefect "
        "yet."
    )


MAPPING: JsonSchemaValue = {"anyOf": [{"type": ["object", "null"]}, *OBJECT_TEXT]}


class RuleBody(LabelledBody):
    """An event rule: a change of `event_source_id`, or the end of `runtemplate_source_id`, starts
    `runtemplate_id`. `env_mapping` is an object, or its JSON text; with `fan_out` each element of
    a list in it starts a job.
    """

    record: ClassVar = EventRule

    event_source_id: Annotated[Ref | None, Shown("Event source")] = None
    runtemplate_source_id: Annotated[Ref | None, Shown("Run template")] = None
    runtemplate_id: Annotated[Ref | None, Shown("Run template")] = None
    evidence: Annotated[ShortText | None, Shown("Kind of record", "Leave empty for any kind.")] = (
        None
    )
    operation: Annotated[
        Operation,
        Shown("Changes", choices={each: Text(each) for each in get_args(Operation)}),
    ] = "any"
    on: Annotated[End, Shown("Results", choices={each: Text(each) for each in get_args(End)})] = (
        "success"
    )
    env_mapping: Annotated[
        dict[str, Any],
        WithJsonSchema(MAPPING),
        Shown(
            "Values from the event",
            "JSON: the key of each value and its path in the event.",
            control="json",
        ),
    ] = Field(default_factory=dict)
    fan_out: Annotated[Boolean, Shown("one job per list element")] = False
    enabled: Annotated[Boolean, Shown("enabled")] = True
    priority: Annotated[
        int, Field(ge=-(2**31), le=2**31 - 1), READ_INTEGER, OrText(SIGNED), Shown("Priority")
    ] = 0

    @field_validator("env_mapping", mode="before")
    @classmethod
    def _read_text(cls, value: Any) -> Any:
        return {} if value is None else parse_object(value)


def write_rule(write: WriteRequest) -> WriteResult:
    """Write an event rule."""
    body = parse_body(RuleBody, write.fields)
    rule = write.get_for_update(records.EventRule, "jobs")
    created = rule is None
    _check_references(write, body)
    if rule is None:
        require_fields(body, "runtemplate_id")
        rule = records.EventRule(env_mapping="{}")
        write.session.add(rule)
    elif not _may_vouch(write, rule) and (more := body.model_fields_set - OPERATED):
        raise Forbidden(
            f"this rule passes on a company's events that you may not read: you can change "
            f"{', '.join(sorted(OPERATED))} of it, not {', '.join(sorted(more))}"
        )
    apply_fields(rule, body, except_for={"env_mapping"})
    if "env_mapping" in body.model_fields_set:
        rule.env_mapping = json.dumps(body.env_mapping, ensure_ascii=False)
    write.session.flush()
    write.session.expire(rule, ["runtemplate", "runtemplate_source", "event_source"])
    if _may_vouch(write, rule):
        rule.written_by = write.who.user_id
    check_rule(write.session, rule, write.settings.extra_env)
    enqueue(
        write.session, OutboxKind.APPLY_TEMPLATE, rule.runtemplate_id
    )  # values that runs may omit
    enqueue(write.session, OutboxKind.APPLY_RULE, rule.id)
    return WriteResult(rule, created)


OPERATED = frozenset({"enabled", "labels", "priority"})
"""Fields of a rule that do not affect which data it passes on."""


def _may_vouch(write: WriteRequest, rule: records.EventRule) -> bool:
    """Whether the user may read the events that a rule passes on."""
    kind = "jobs" if rule.runtemplate_source_id is not None else "companies"
    owners = rule.source_company_id, rule.runtemplate.company_id
    return owners[0] == owners[1] or write.who.rights.may_read(kind, owners[0])


def _check_references(write: WriteRequest, body: RuleBody) -> None:
    if body.runtemplate_id is not None:
        target = write.resolve_reference(
            RunTemplate, body.runtemplate_id, "/runtemplate_id", "jobs"
        )
        write.authorize_create("jobs", target.company_id)
    if body.event_source_id is not None:
        write.resolve_reference(
            records.EventSource, body.event_source_id, "/event_source_id", "companies"
        )
    if body.runtemplate_source_id is not None:
        pointer = "/runtemplate_source_id"
        write.resolve_reference(RunTemplate, body.runtemplate_source_id, pointer, "jobs")


def serialize_rule(rule: records.EventRule, settings: Settings) -> JsonObject:
    """Return an event rule as answers show it."""
    mapping = json.loads(rule.env_mapping)
    link = prefect_link(settings, "automations/automation", rule.automation_id)
    return serialize_fields(EventRule, rule, env_mapping=mapping, prefect_url=link)


RESOURCE = Resource(
    KINDS["eventrule"], records.EventRule, EventRule, serialize_rule, write_rule,
    filters={
        "runtemplate_id": reference("runtemplate"),
        "runtemplate_source_id": reference("runtemplate", "runtemplate_source_id"),
        "event_source_id": reference("eventsource", "event_source_id"),
        "enabled": ENABLED,
    },
    body=RuleBody, put=True,
)  # fmt: skip
