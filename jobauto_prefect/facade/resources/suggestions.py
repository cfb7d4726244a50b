"""Suggestions for event rules; they have no effect until somebody writes the rule."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, WithJsonSchema

from jobauto_prefect.compiler.events.suggestions import (
    parse_trigger,
    suggest_change_mapping,
    suggest_mapping,
)
from jobauto_prefect.definitions import pick_text
from jobauto_prefect.facade.answers import Answer, JsonObject
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.operations import answered, operation
from jobauto_prefect.facade.http.parameters import number_or_name
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds.natural_keys import key_type, parse_key, require_id
from jobauto_prefect.facade.resources.applications import AppKey, get_visible_app
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger.queries.events import RuleTrigger, sources_for, triggers_of
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.queries.run_templates import templates_with_context
from jobauto_prefect.ledger.records import App, RunTemplate
from jobauto_prefect.ledger.store import ReadingSession

SourceApp = Annotated[
    str,
    Query(
        alias="source_app_id",
        min_length=1,
        max_length=255,
        description="The application whose jobs end.",
    ),
    WithJsonSchema(number_or_name(KINDS["app"])),
]

TemplateKey: Any = key_type(RunTemplate, "template_id")


router = APIRouter()


class SuggestedMapping(Answer):
    """How values of one application's jobs can be passed to another."""

    env_mapping: dict[str, str] = Field(
        description="For each environment key, a selector in the event: an object, in requests "
        "also its JSON text."
    )
    flows: dict[str, str] = Field(
        description="For each environment key, what `consumes` passes without a mapping."
    )
    selectors: dict[str, list[str]] = Field(
        description="For each environment key, the matching selectors, the most useful first."
    )


class SuggestedRule(Answer):
    """A rule that could be written."""

    event_source_id: int | None = Field(
        default=None,
        description="The event source whose changes start the rule.",
    )
    runtemplate_source_id: int | None = Field(
        default=None,
        description="The run template whose jobs start the rule when they end.",
    )
    runtemplate_id: int = Field(description="The run template.")
    evidence: str | None = Field(
        default=None,
        description="The kind of record whose changes start it; null: any.",
    )
    operation: str | None = Field(default=None, description="Which changes start it.")
    env_mapping: dict[str, str] = Field(
        description="For each environment key, a selector in the event: an object, in requests "
        "also its JSON text."
    )


class Suggestion(Answer):
    """A rule for an event that the application of a run template consumes."""

    event: str = Field(description="The event that the application consumes.")
    description: str = Field(description="The description of the event.")
    rule: SuggestedRule = Field(description="What to write to `/eventrule/`.")


class Suggestions(Answer):
    """Rules that could be written. Until they are written, they start nothing."""

    suggestions: list[Suggestion] = Field(description="The rules.")


@operation(
    router, "GET /app/{app_id}/mapping.{suffix}", "suggestMapping", "Suggest a mapping",
    "How values of another application's jobs can be passed to this application: a mapping by "
    "names and inputs, what `consumes` passes without a mapping, and the matching selectors of "
    "each key.",
    tag="Applications", answer=answered("The suggestion.", SuggestedMapping),
)  # fmt: skip
def mapping(
    app_id: AppKey,
    source_app_id: SourceApp,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
) -> Response:
    """Return how values of one application's jobs can be passed to this one."""
    with service.ledger.reading() as session:
        key = parse_key("source_app_id", source_app_id)
        source_id = require_id(session, who, App, key) if isinstance(key, str) else key
        target, source = (get_visible_app(session, who, number) for number in (app_id, source_id))
    data = asdict(suggest_mapping(source.definition, target.definition))
    return respond_plain(request, who, f"Mapping from {source.name} to {target.name}", data)


@operation(
    router, "GET /runtemplate/{template_id}/suggestions.{suffix}", "suggestRules",
    "Suggest rules",
    "Rules that would start the run template for the events that its application consumes: after "
    "run templates of its company that emit these events, or after changes of event sources. "
    "Existing rules are left out. Needs `jobs.read`.",
    tag="Run templates", answer=answered("The rules.", Suggestions),
)  # fmt: skip
def suggestions(
    template_id: TemplateKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return rules that would start a run template for the events its application consumes."""
    with service.ledger.reading() as session:
        template = get_record(session, RunTemplate, template_id)
        who.rights.require("jobs", "read", template.company_id, template)
        there = triggers_of(session, template.id)
        offered = [
            suggestion
            for suggestion in _suggest_rules(session, who, template, service.settings.language)
            if _trigger_key(suggestion["rule"]) not in there
        ]
    return respond_plain(request, who, f"Rules for {template.name}", {"suggestions": offered})


def _trigger_key(rule: Mapping[str, Any]) -> RuleTrigger:
    """Return what identifies a rule, whatever its mapping."""
    source, template = rule.get("event_source_id"), rule.get("runtemplate_source_id")
    return source, template, rule.get("evidence"), rule.get("operation", "any")


def _suggest_rules(
    session: ReadingSession, who: Identity, template: RunTemplate, language: str
) -> Iterator[JsonObject]:
    definition = template.app.definition
    if not definition.triggers:
        return
    others = templates_with_context(session, [template.company_id])
    sources = [
        source
        for source in sources_for(session, template.company_id)
        if who.rights.may_read("companies", source.company_id)
    ]
    for name, declared in definition.triggers.items():
        about = {
            "event": name,
            "description": pick_text(declared.get("description") or "", language),
        }
        for other in others:
            emits = (other.app.document.get("events") or {}).get("emits") or {}
            if name in emits and other.id != template.id:
                yield about | {
                    "rule": {
                        "runtemplate_source_id": other.id,
                        "runtemplate_id": template.id,
                        "env_mapping": suggest_mapping(
                            other.app.definition, definition
                        ).env_mapping,
                    }
                }
        if trigger := parse_trigger(name, declared):
            for source in sources:
                yield about | {
                    "rule": {
                        "event_source_id": source.id,
                        "runtemplate_id": template.id,
                        "evidence": trigger.evidence,
                        "operation": trigger.operation,
                        "env_mapping": suggest_change_mapping(definition),
                    }
                }
