"""Events: what happened, what it started, and what died on the way and may be tried again."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE, CONTRACT
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.contract import Contract, ContractError, CurrentContract
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.choices import Choices, read_choices
from jobauto_prefect.facade.console.records.pages import (
    NOTHING,
    Action,
    AnyCell,
    ListFilter,
    ListPage,
    RecordPage,
    Section,
    company_filter,
    language_parts,
    link,
    list_query,
    moment_cell,
    read_list,
    respond_with_list,
    respond_with_record,
    text_cell,
)
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.formats.json_yaml import dump_json
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger.states import DeliveryState

ADDRESS = f"{CONSOLE}/events"
RULES = f"{CONSOLE}/rules"
SOURCES = f"{CONSOLE}/sources"
FILTERS = ("state", "kind", "runtemplate_id", "event_source_id", "company_id")

STATE_TONES: Mapping[str, str] = {"done": "good", "owed": "live", "dead": "bad"}
DELIVERY_TONES: Mapping[str, str] = {
    DeliveryState.OWED: "live",
    DeliveryState.STARTED: "good",
    DeliveryState.DEAD: "bad",
}
STATES = ("owed", "dead", "done")
KINDS = ("change", "completion")
MAX_NAMED = 50
"""Rules whose run templates an event's page names."""

router = late_routes.router(include_in_schema=False)

Event = Mapping[str, Any]
Names = Mapping[str, str]
"""Names by ids as text."""

Rules = Mapping[int, tuple[str, str]]
"""Id and name of the run template that a rule starts, by the rule's id."""


@router.get(ADDRESS)
async def list_events(
    request: Request, contract: CurrentContract, service: CurrentService
) -> Response:
    """List events, the newest first."""
    translate, languages = language_parts(request)
    view = await read_list(contract, "events", list_query(request, FILTERS))
    now = service.ledger.clock()
    page = ListPage(
        collection="events",
        title="Events",
        heads=[
            translate("Event"),
            translate("When"),
            translate("Of"),
            translate("Company"),
            translate("State"),
        ],
        rows=[_row(event, view.names, now, translate) for event in view.data.values()],
        filters=[
            ListFilter("state", translate("State"), _choices(STATES, translate)),
            ListFilter("kind", translate("Kind"), _choices(KINDS, translate)),
            ListFilter(
                "runtemplate_id",
                translate("Run template"),
                await read_choices(contract, "runtemplates", languages),
            ),
            ListFilter(
                "event_source_id",
                translate("Event source"),
                await read_sources(contract, languages),
            ),
            await company_filter(contract, languages, translate),
        ],
        empty=translate(
            "Nothing has happened yet. Event sources and the ends of jobs make events."
        ),
    )
    return respond_with_list(request, contract.who, page, view)


@router.get(f"{ADDRESS}/{{event:int}}")
async def show_event(
    event: int, request: Request, contract: CurrentContract, service: CurrentService
) -> Response:
    """Show an event and what it owes."""
    translate, _ = language_parts(request)
    view = await contract.read(f"/event/{event}")
    shown, now = view.data, service.ledger.clock()
    rules = await _read_rules(contract, shown)
    page = RecordPage(
        title=describe_event(shown, translate),
        about=[_origin(shown, view.names)],
        badges=[_badge(shown["state"], STATE_TONES, translate)],
        actions=list(_actions(contract.who, shown, rules, translate)),
        facts=list(_facts(shown, now, translate)),
        sections=[
            Section(
                "deliveries",
                translate("Run templates started"),
                [
                    translate("Run template"),
                    translate("Event rule"),
                    translate("State"),
                    translate("Job"),
                    translate("Why"),
                ],
                [_delivery(delivery, rules, translate) for delivery in shown["deliveries"]],
                translate("No rule reacts to it."),
                RULES,
            ),
            Section(
                "actions",
                translate("Actions"),
                [
                    translate("Action"),
                    translate("State"),
                    translate("Target"),
                    translate("Attempts"),
                    translate("Why"),
                ],
                [_owed_action(action, translate) for action in shown["actions"]],
                translate("It has no actions."),
            ),
            Section(
                "data",
                translate("What is known of it"),
                [translate("Field"), translate("Value")],
                [[Cell("text", name), _value(value)] for name, value in shown["data"].items()],
                translate("Nothing more is known."),
            ),
        ],
        contract_href=f"{CONTRACT}/event/{event}.html",
    )
    return respond_with_record(request, contract.who, page, here="Events")


@router.post(f"{ADDRESS}/{{event:int}}/replay")
async def replay_event(
    event: int, request: Request, contract: CurrentContract, eventrule_id: int | None = None
) -> Response:
    """Start a rule for an event once more; without one, all that it started in vain."""
    body = {} if eventrule_id is None else {"eventrule_id": eventrule_id}
    await contract.write("POST", f"/event/{event}/replay.json", body)
    return redirect_after(request, f"{ADDRESS}/{event}", "replayed")


async def read_sources(contract: Contract, languages: Sequence[str]) -> Choices:
    """Return the event sources that the visitor may see, as choices."""
    if not contract.who.rights.anywhere("companies.read"):
        return []
    return await read_choices(contract, "eventsources", languages)


async def _read_rules(contract: Contract, event: Event) -> Rules:
    """Read the rules that an event starts, as far as the visitor may see them.

    Of more than `MAX_NAMED` the others are shown by their numbers alone.
    """
    ids = list(dict.fromkeys(delivery["eventrule_id"] for delivery in event["deliveries"]))
    rules = {}
    for rule_id in ids[:MAX_NAMED]:
        with suppress(ContractError):  # it was deleted, or is not theirs to see
            view = await contract.read(f"/eventrule/{rule_id}")
            template = str(view.data["runtemplate_id"])
            if name := view.names.get("runtemplate", {}).get(template):
                rules[rule_id] = (template, name)
    return rules


def describe_event(event: Event, translate: Translator) -> str:
    """Return what happened, in a line."""
    if event["kind"] == "completion":
        return translate(
            "Job {job} ended: {outcome}", job=event["job_id"], outcome=event["operation"]
        )
    evidence = event["evidence"] or translate("record")
    return f"{evidence} {event['record_id'] or ''}: {translate(event['operation'])}"


def _choices(words: Sequence[str], translate: Translator) -> list[tuple[str, str]]:
    return [(word, translate(word)) for word in words]


def _badge(state: str, tones: Mapping[str, str], translate: Translator) -> Cell:
    return Cell("badge", translate(state), tone=tones.get(state, ""))


def _row(
    event: Event,
    names: Mapping[str, Names],
    now: datetime,
    translate: Translator,
) -> list[AnyCell]:
    company = str(event["company_id"] or "")
    return [
        link(describe_event(event, translate), f"{ADDRESS}/{event['id']}"),
        moment_cell(event["created_at"], now, translate),
        _origin(event, names),
        text_cell(names.get("company", {}).get(company, company)),
        _badge(event["state"], STATE_TONES, translate),
    ]


def _origin(event: Event, names: Mapping[str, Names]) -> Cell:
    """Return where an event comes from: a run template, or an event source."""
    if event["runtemplate_id"] is not None:
        key = str(event["runtemplate_id"])
        return link(
            names.get("runtemplate", {}).get(key, f"#{key}"), f"{CONSOLE}/runtemplates/{key}"
        )
    if event["event_source_id"] is not None:
        key = str(event["event_source_id"])
        name = names.get("eventsource", {}).get(key, f"#{key}")
        return link(name, f"{SOURCES}/{key}")
    return NOTHING


def _actions(who: Identity, event: Event, rules: Rules, translate: Translator) -> Iterator[Action]:
    """Yield what the visitor may start once more: all that failed, or a rule by itself."""
    if event["error"] or not who.rights.may("jobs.execute", event["company_id"]):
        return
    address = f"{ADDRESS}/{event['id']}/replay"
    if event["state"] == "dead":
        yield Action(translate("Try again what failed"), address, posts=True, is_main=True)
    for rule_id, (_, name) in rules.items():
        label = translate("Start {template} again", template=name)
        yield Action(label, f"{address}?eventrule_id={rule_id}", posts=True)


def _facts(event: Event, now: datetime, translate: Translator) -> Iterator[tuple[str, AnyCell]]:
    yield translate("When"), moment_cell(event["created_at"], now, translate)
    yield translate("Kind"), text_cell(translate(event["kind"]))
    if event["job_id"] is not None:
        yield translate("Job"), _job(event["job_id"])
    if event["depth"]:
        yield translate("Ends of jobs before it"), text_cell(str(event["depth"]))
    if event["emission_error"]:
        yield translate("Prefect does not hear of it"), text_cell(event["emission_error"])


def _job(job_id: int) -> Cell:
    return link(f"#{job_id}", f"{CONSOLE}/jobs/{job_id}")


def _delivery(delivery: Mapping[str, Any], rules: Rules, translate: Translator) -> list[AnyCell]:
    rule_id = delivery["eventrule_id"]
    template, name = rules.get(rule_id, ("", ""))
    return [
        link(name, f"{CONSOLE}/runtemplates/{template}") if name else NOTHING,
        link(f"#{rule_id}", f"{RULES}/{rule_id}") if name else text_cell(f"#{rule_id}"),
        _badge(delivery["state"], DELIVERY_TONES, translate),
        NOTHING if delivery["job_id"] is None else _job(delivery["job_id"]),
        text_cell(delivery["error"] or ""),
    ]


def _owed_action(action: Mapping[str, Any], translate: Translator) -> list[AnyCell]:
    started = NOTHING if action["job_id"] is None else _job(action["job_id"])
    return [
        Cell("code", action["kind"]),
        _badge(action["state"], STATE_TONES, translate),
        text_cell(action["target"]) if action["target"] else started,
        Cell("number", str(action["attempts"])),
        text_cell(action["error"] or ""),
    ]


def _value(value: Any) -> Cell:
    return Cell("code", value if isinstance(value, str) else dump_json(value))
