"""Event rules as a picture and as a table: what starts what."""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.console.activity.event_pages import ADDRESS as EVENTS
from jobauto_prefect.facade.console.activity.event_pages import RULES, SOURCES, Names, source_names
from jobauto_prefect.facade.console.activity.rule_picture import Arrow, Origin, draw_rules
from jobauto_prefect.facade.console.contract import Contract, ContractError, CurrentContract
from jobauto_prefect.facade.console.page_response import respond_in_console
from jobauto_prefect.facade.console.records.page_parts import (
    Action,
    AnyCell,
    RecordPage,
    Section,
    enabled_badge,
    link,
)
from jobauto_prefect.facade.console.records.record_views import language_parts, respond_with_record
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import CONTRACT

router = late_routes.router(include_in_schema=False)

Rule = Mapping[str, Any]


@router.get(RULES)
async def show_rules(request: Request, contract: CurrentContract) -> Response:
    """Show all rules that the visitor may see."""
    translate, _ = language_parts(request)
    sources = await source_names(contract)
    templates = (await contract.read("/runtemplates")).data
    names = {key: str(template["name"]) for key, template in templates.items()}
    rules = list((await contract.read("/eventrules")).data.values())
    arrows = [_arrow(rule, translate) for rule in rules]
    new = Action(translate("New event rule"), f"{RULES}/new", is_main=True)
    return respond_in_console(
        request,
        contract.who,
        "activity/rules.html",
        translate("Event rules"),
        here="Events",
        picture=draw_rules(_origins(sources, names), arrows),
        heads=[
            translate("When"),
            translate("Of"),
            translate("Starts"),
            translate("Priority"),
            translate("State"),
        ],
        rows=[_row(rule, sources, names, translate) for rule in rules],
        actions=[
            *([new] if contract.who.rights.anywhere("jobs.create") else []),
            Action(translate("Events"), EVENTS),
            Action(translate("Event sources"), SOURCES),
        ],
        contract_href=f"{CONTRACT}/eventrules.html",
    )


@router.get(f"{RULES}/{{eventrule:int}}")
async def show_rule(eventrule: int, request: Request, contract: CurrentContract) -> Response:
    """Show a rule: on what it starts which run template, with which values."""
    translate, _ = language_parts(request)
    view = await contract.read(f"/eventrule/{eventrule}")
    rule, sources = view.data, await source_names(contract)
    templates = await _read_templates(contract, rule)
    names = {key: str(template["name"]) for key, template in templates.items()}
    target = templates.get(str(rule["runtemplate_id"]))
    may_edit = target and contract.who.rights.may("jobs.update", target["company_id"])
    _, origin, started, priority, state = _row(rule, sources, names, translate)
    page = RecordPage(
        title=_occasion(rule, translate),
        about=[],
        badges=[state] if isinstance(state, Cell) else [],
        actions=[Action(translate("Edit"), f"{RULES}/{eventrule}/edit")] if may_edit else [],
        facts=[
            (translate("Of"), origin),
            (translate("Starts"), started),
            (translate("Priority"), priority),
        ],
        sections=[
            Section(
                "mapping",
                translate("Values from the event"),
                [translate("Key"), translate("Where it stands in the event")],
                [
                    [Cell("code", key), Cell("code", str(selector))]
                    for key, selector in rule["env_mapping"].items()
                ],
                translate("The event gives no values."),
            )
        ],
        contract_href=f"{CONTRACT}/eventrule/{eventrule}.html",
    )
    return respond_with_record(request, contract.who, page, here="Events")


async def _read_templates(contract: Contract, rule: Rule) -> dict[str, Mapping[str, Any]]:
    """Read the run templates that a rule is about, as far as the visitor may see them, by id."""
    templates = {}
    for template_id in (rule["runtemplate_source_id"], rule["runtemplate_id"]):
        if template_id is not None:
            with contextlib.suppress(ContractError):
                view = await contract.read(f"/runtemplate/{template_id}")
                templates[str(template_id)] = view.data
    return templates


def _origins(sources: Names, templates: Names) -> dict[str, Origin]:
    """Return everything that rules react to or start, by its key."""
    known: Iterable[Origin] = (
        *(
            Origin(_source_key(key), name, f"{SOURCES}/{key}", True)
            for key, name in sources.items()
        ),
        *(
            Origin(_template_key(key), name, f"{CONSOLE}/runtemplates/{key}")
            for key, name in templates.items()
        ),
    )
    return {origin.key: origin for origin in known}


def _source_key(key: object) -> str:
    return f"source {key}"


def _template_key(key: object) -> str:
    return f"template {key}"


def _arrow(rule: Rule, translate: Translator) -> Arrow:
    source = rule["event_source_id"]
    start = _template_key(rule["runtemplate_source_id"]) if source is None else _source_key(source)
    return Arrow(
        start,
        _template_key(rule["runtemplate_id"]),
        f"{RULES}/{rule['id']}",
        _occasion(rule, translate),
        rule["enabled"],
    )


def _occasion(rule: Rule, translate: Translator) -> str:
    """Return on what a rule starts its run template."""
    if rule["event_source_id"] is None:
        return translate("end: {outcome}", outcome=translate(rule["on"]))
    evidence = rule["evidence"] or translate("any record")
    return f"{evidence}: {translate(rule['operation'])}"


def _row(rule: Rule, sources: Names, templates: Names, translate: Translator) -> list[AnyCell]:
    target = str(rule["runtemplate_id"])
    return [
        link(_occasion(rule, translate), f"{RULES}/{rule['id']}"),
        _origin(rule, sources, templates),
        link(templates.get(target, f"#{target}"), f"{CONSOLE}/runtemplates/{target}"),
        Cell("number", str(rule["priority"])),
        enabled_badge(rule, translate),
    ]


def _origin(rule: Rule, sources: Names, templates: Names) -> Cell:
    if rule["event_source_id"] is not None:
        key = str(rule["event_source_id"])
        return link(sources.get(key, f"#{key}"), f"{SOURCES}/{key}")
    key = str(rule["runtemplate_source_id"])
    return link(templates.get(key, f"#{key}"), f"{CONSOLE}/runtemplates/{key}")
