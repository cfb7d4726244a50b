"""Event sources and event rules."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema, field_validator
from pydantic.json_schema import JsonSchemaValue

from jobauto_prefect.definitions.masks import MASK
from jobauto_prefect.definitions.source_addresses import SOURCE_ADDRESS, moved_source
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.destinations import given_again
from jobauto_prefect.facade.requests import parse as parse_body
from jobauto_prefect.facade.spellings import (
    READ_INTEGER,
    SIGNED,
    UNSIGNED,
    OrText,
    Truth,
)
from jobauto_prefect.facade.writes.base import (
    OBJECT_TEXT,
    LabelledBody,
    Name,
    Ref,
    ShortText,
    Write,
    Written,
    company_of_body,
    read_object,
    require,
    take,
)
from jobauto_prefect.facade.writes.rules import check_rule
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.base import BIGGEST_ID
from jobauto_prefect.ledger.records import EventRule, EventSource, RunTemplate
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources import fault_of, rules_of, target_of

Interval = Annotated[int, Field(ge=1, le=86_400), READ_INTEGER, OrText(r"^[1-9][0-9]{0,3}$")]
Position = Annotated[int, Field(ge=0, le=BIGGEST_ID), READ_INTEGER, OrText(UNSIGNED)]
PORT = r"^([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])?$"
"""1 to 65535, or nothing."""

PORTS: JsonSchemaValue = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": 65_535},
        {"type": "string", "pattern": PORT},
    ]
}


class SourceBody(LabelledBody):
    """An event source, known by its name. A blank or masked password keeps the one there is; where
    kind, host, port, database or user change, it has to be given again, or null where there is
    none any more.
    """

    name: Name | None = None
    company_id: Ref | None = None
    company: str | None = None
    adapter_type: Name = "abraflexi-webhook"
    db_connection: Literal["mysql", "pgsql", "sqlite"] = "mysql"
    db_host: ShortText = "localhost"
    db_port: Annotated[str, Field(pattern=PORT), WithJsonSchema(PORTS)] = "3306"
    db_database: Name | None = None
    db_username: ShortText | None = None
    db_password: ShortText | None = None
    enabled: Truth = True
    poll_interval: Interval = 60
    consume: Literal["delete", "keep"] = "delete"
    last_processed_id: Position | None = None

    @field_validator("db_port", mode="before")
    @classmethod
    def _port_as_text(cls, value: Any) -> Any:
        if isinstance(value, float) and value.is_integer():  # as JSON Schema has it
            value = int(value)
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


PASSWORD = "db_password"  # noqa: S105 - the name of a member
APART = {"company_id", "company", PASSWORD, "last_processed_id"}


def write_source(write: Write) -> Written:
    """An event source; its password is stored encrypted."""
    body = parse_body(SourceBody, write.fields)
    company = company_of_body(write, body.company_id, body.company)
    source = _known_source(write, body)
    created = source is None
    if source is None or (company is not None and company.id != source.company_id):
        write.creating("companies", company.id if company else None)
    if source is None:
        require(body, "name", "db_database")
        source = EventSource()
        write.session.add(source)
    before = {name: getattr(source, name) for name in SOURCE_ADDRESS}
    take(source, body, except_for=APART)
    source.company_id = company.id if company else source.company_id
    if body.last_processed_id is not None:
        source.start_after = source.last_processed_id = body.last_processed_id
    changed = moved_source(before, {name: getattr(source, name) for name in SOURCE_ADDRESS})
    faults = [*_take_password(write, source, body, changed)]
    faults += _target_faults(source, write.box, write.settings)
    if faults:
        raise InvalidInput(faults)
    write.session.flush()
    return Written(source, created)


def _take_password(
    write: Write, source: EventSource, body: SourceBody, changed: list[str]
) -> Iterator[Fault]:
    """`changed` are the members of its address that are others than the stored password is for."""
    if body.db_password and body.db_password != MASK:
        source.db_password = write.box.seal({PASSWORD: body.db_password})[PASSWORD]
    elif source.db_password and changed:
        if PASSWORD not in body.model_fields_set or body.db_password is not None:
            yield given_again(f"/{PASSWORD}", PASSWORD, changed)
        source.db_password = None


def _target_faults(source: EventSource, box: SecretBox, settings: Settings) -> Iterator[Fault]:
    fault = fault_of(target_of(source, box), rules_of(settings))
    if fault is not None:
        member = "db_database" if source.db_connection == "sqlite" else "db_host"
        yield Fault(f"/{member}", "target", fault)


def _known_source(write: Write, body: SourceBody) -> EventSource | None:
    if write.record_id is not None or not body.name:
        return write.known(EventSource, "companies")
    known = queries.source_named(write.session, body.name)
    return write.updatable(known, "companies") if known else None


MAPPING: JsonSchemaValue = {"anyOf": [{"type": ["object", "null"]}, *OBJECT_TEXT]}


class RuleBody(LabelledBody):
    """An event rule: a change of `event_source_id`, or the end of `runtemplate_source_id`, starts
    `runtemplate_id`. `env_mapping` is an object, or its JSON text; with `fan_out` there is a job
    for each element of a list in it.
    """

    event_source_id: Ref | None = None
    runtemplate_source_id: Ref | None = None
    runtemplate_id: Ref | None = None
    evidence: ShortText | None = None
    operation: Literal["any", "create", "update", "delete"] = "any"
    on: Literal["success", "warning", "failure", "any"] = "success"
    env_mapping: Annotated[dict[str, Any], WithJsonSchema(MAPPING)] = Field(default_factory=dict)
    fan_out: Truth = False
    enabled: Truth = True
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1), READ_INTEGER, OrText(SIGNED)] = 0

    @field_validator("env_mapping", mode="before")
    @classmethod
    def _read_text(cls, value: Any) -> Any:
        return {} if value is None else read_object(value)


def write_rule(write: Write) -> Written:
    """An event rule."""
    body = parse_body(RuleBody, write.fields)
    rule = write.known(EventRule, "jobs")
    created = rule is None
    _check_references(write, body)
    if rule is None:
        require(body, "runtemplate_id")
        rule = EventRule(env_mapping="{}")
        write.session.add(rule)
    take(rule, body, except_for={"env_mapping"})
    if "env_mapping" in body.model_fields_set:
        rule.env_mapping = json.dumps(body.env_mapping, ensure_ascii=False)
    write.session.flush()
    check_rule(write.session, rule, write.settings.extra_env)
    wish(write.session, WishKind.APPLY_TEMPLATE, rule.runtemplate_id)  # what runs may leave out
    wish(write.session, WishKind.APPLY_RULE, rule.id)
    return Written(rule, created)


def _check_references(write: Write, body: RuleBody) -> None:
    if body.runtemplate_id is not None:
        target = write.referred(RunTemplate, body.runtemplate_id, "/runtemplate_id", "jobs")
        write.creating("jobs", target.company_id)
    if body.event_source_id is not None:
        write.referred(EventSource, body.event_source_id, "/event_source_id", "companies")
    if body.runtemplate_source_id is not None:
        pointer = "/runtemplate_source_id"
        write.referred(RunTemplate, body.runtemplate_source_id, pointer, "jobs")
