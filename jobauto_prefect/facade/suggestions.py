"""What people who write event rules are offered; it has no effect until they write it."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from jobauto_prefect.compiler.suggesting import (
    Trigger,
    mapped,
    mapped_change,
    selectors_of,
    trigger_of,
)
from jobauto_prefect.definitions import Definition, parse, text
from jobauto_prefect.facade.access import allow, see, visible
from jobauto_prefect.facade.answers import plain
from jobauto_prefect.facade.auth import Identity, Person
from jobauto_prefect.facade.names import is_name, key_of, known_id
from jobauto_prefect.facade.resources import integer, words
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.records import App, EventSource, RunTemplate
from jobauto_prefect.ledger.store import ReadingSession

Shown = dict[str, Any]
SourceApp = Annotated[str, Query(alias="source_app_id", min_length=1, max_length=255)]

AppKey: Any = key_of(App, "app_id")
TemplateKey: Any = key_of(RunTemplate, "template_id")


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    for path, function in (
        ("/app/{app_id}/mapping", mapping),
        ("/runtemplate/{template_id}/suggestions", suggestions),
    ):
        router.get(f"{path}.{{suffix}}", name=function.__name__)(function)
        router.get(path, include_in_schema=False)(function)


def selectors(app: App, language: str) -> list[Shown]:
    """What rules can name of the ends of an application's jobs."""
    offered = selectors_of(parse(app.document), language)
    return [
        {"selector": one.selector, "type": one.type, "description": one.description}
        for one in offered
    ]


def mapping(
    app_id: AppKey,
    source_app_id: SourceApp,
    request: Request,
    who: Person,
    service: CurrentService,
) -> Response:
    """How values of one application's jobs could get to this one."""
    with service.ledger.reading() as session:
        source_id = _id_of(session, who, source_app_id)
        target, source = (
            visible(session, who, App, number, "applications") for number in (app_id, source_id)
        )
    data = asdict(mapped(parse(source.document), parse(target.document)))
    return plain(request, who, f"Mapping from {source.name} to {target.name}", data)


def _id_of(session: ReadingSession, who: Identity, word: str) -> int:
    if is_name(word):
        return known_id(session, who, App, words("source_app_id", word))
    number: int = integer("source_app_id", word)
    return number


def suggestions(
    template_id: TemplateKey, request: Request, who: Person, service: CurrentService
) -> Response:
    """Rules that would start a run template for the events its application consumes."""
    with service.ledger.reading() as session:
        template = queries.get(session, RunTemplate, template_id)
        allow(who, "jobs", "read", template.company_id, template)
        there = queries.triggers_of(session, template.id)
        offered = [
            one
            for one in _offered(session, who, template, service.settings.language)
            if _key(one["rule"]) not in there
        ]
    return plain(request, who, f"Rules for {template.name}", {"suggestions": offered})


def _key(rule: Mapping[str, Any]) -> queries.RuleTrigger:
    """What of a rule tells whether it is there already, whatever it maps."""
    source, template = rule.get("event_source_id"), rule.get("runtemplate_source_id")
    return source, template, rule.get("evidence"), rule.get("operation", "any")


def _offered(
    session: ReadingSession, who: Identity, template: RunTemplate, language: str
) -> Iterator[Shown]:
    definition = parse(template.app.document)
    if not definition.triggers:
        return
    others = queries.templates_with_context(session, [template.company_id])
    sources = [
        one
        for one in queries.sources_for(session, template.company_id)
        if see(who, "companies", one.company_id)
    ]
    for name, said in definition.triggers.items():
        about = {"event": name, "description": text(said.get("description") or "", language)}
        for other in others:
            emits = (other.app.document.get("events") or {}).get("emits") or {}
            if name in emits and other.id != template.id:
                yield about | {"rule": _after(other, template, definition)}
        if trigger := trigger_of(name, said):
            for source in sources:
                yield about | {"rule": _of_change(source, trigger, template, definition)}


def _after(other: RunTemplate, template: RunTemplate, definition: Definition) -> Shown:
    found = mapped(parse(other.app.document), definition)
    return {
        "runtemplate_source_id": other.id,
        "runtemplate_id": template.id,
        "env_mapping": found.env_mapping,
    }


def _of_change(
    source: EventSource, trigger: Trigger, template: RunTemplate, definition: Definition
) -> Shown:
    return {
        "event_source_id": source.id,
        "runtemplate_id": template.id,
        "evidence": trigger.evidence,
        "operation": trigger.operation,
        "env_mapping": mapped_change(definition),
    }
