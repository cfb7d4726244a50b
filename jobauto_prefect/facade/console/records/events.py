"""Events: what happened, what it started, and what failed and can be repeated."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fastapi import Response

from jobauto_prefect.console_addresses import list_address, page_of
from jobauto_prefect.facade.console.contract import ContractError
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.cells import (
    COMPANY,
    NOTHING,
    AnyCell,
    Column,
    Draw,
    Record,
    badge,
    code,
    has,
    link_to,
    moment,
    number,
    referred,
    text,
    text_cell,
)
from jobauto_prefect.facade.console.records.pages import (
    BY_COMPANY,
    Action,
    Filter,
    RecordPages,
    Table,
)
from jobauto_prefect.facade.console.visit import Choices, CurrentVisit, Visit
from jobauto_prefect.facade.formats.html.cells import Cell
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.formats.json_yaml import dump_json
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger.events.deliveries import EventKind
from jobauto_prefect.ledger.states import DeliveryState

TONES: Mapping[str, str] = {"owed": "live", "dead": "bad", "done": "good"}
DELIVERY_TONES: Mapping[str, str] = {
    DeliveryState.OWED: "live",
    DeliveryState.STARTED: "good",
    DeliveryState.DEAD: "bad",
}
MAX_NAMED = 50
"""Rules whose run templates are named on an event's page."""


async def read_sources(visit: Visit) -> Choices:
    """Return the event sources that the visitor may see, as choices."""
    if not visit.who.rights.anywhere("companies.read"):
        return []
    return await visit.choices("eventsources")


def _describe(event: Record, visit: Visit) -> str:
    """Describe an event in one line."""
    if event["kind"] == EventKind.COMPLETION:
        return visit.translate(
            "Job {job} ended: {outcome}", job=event["job_id"], outcome=event["operation"]
        )
    evidence = event["evidence"] or visit.translate("record")
    return f"{evidence} {event['record_id'] or ''}: {visit.translate(event['operation'])}"


def _origin(event: Record, visit: Visit) -> AnyCell:
    """Draw the origin of an event: a run template or an event source."""
    field = "event_source_id" if event["runtemplate_id"] is None else "runtemplate_id"
    return referred(field)(event, visit)


JOB = referred("job_id")


def _rule(delivery: Record, _visit: Visit) -> Cell:
    rule_id = delivery["eventrule_id"]
    is_seen = delivery["template"][1]
    return link_to("eventrule", rule_id) if is_seen else text_cell(f"#{rule_id}")


WHEN = Column(Text("Time"), moment("created_at"))
WHY = Column(Text("Error"), text("error"))
STATE: Draw = badge("state", TONES)


class EventPages(RecordPages):
    """The pages of events, the newest first."""

    kind = KINDS["event"]
    columns = (
        Column(
            Text("Event"),
            lambda event, visit: link_to("event", event["id"], _describe(event, visit)),
        ),
        WHEN,
        Column(Text("Origin"), _origin),
        COMPANY,
        Column(Text("State"), STATE),
    )
    filters = (
        Filter("state", Text("State"), [(state, Text(state)) for state in TONES]),
        Filter("kind", Text("Kind"), [(kind, Text(kind)) for kind in EventKind]),
        Filter("runtemplate_id", Text("Run template"), lambda visit: visit.choices("runtemplates")),
        Filter("event_source_id", Text("Event source"), read_sources),
        BY_COMPANY,
    )
    empty = Text("There are no events yet. Event sources and ending jobs create them.")
    about = (_origin,)
    badges = (STATE,)
    facts = (
        WHEN,
        Column(Text("Kind"), lambda event, visit: text_cell(visit.translate(event["kind"]))),
        Column(Text("Job"), JOB, when=lambda event: event["job_id"] is not None),
        Column(Text("Jobs before it in the chain"), text("depth"), when=has("depth")),
        Column(
            Text("Not sent to Prefect"),
            text("emission_error"),
            when=has("emission_error"),
        ),
    )
    tables = (
        Table(
            "deliveries",
            Text("Started run templates"),
            lambda event, _: event["deliveries"],
            (
                Column(
                    Text("Run template"),
                    lambda each, _: (
                        link_to("runtemplate", *each["template"])
                        if each["template"][1]
                        else NOTHING
                    ),
                ),
                Column(Text("Event rule"), _rule),
                Column(Text("State"), badge("state", DELIVERY_TONES)),
                Column(Text("Job"), JOB),
                WHY,
            ),
            Text("No rule matched."),
            lambda _: list_address("eventrule"),
        ),
        Table(
            "actions",
            Text("Actions"),
            lambda event, _: event["actions"],
            (
                Column(Text("Action"), code("kind")),
                Column(Text("State"), STATE),
                Column(
                    Text("Target"),
                    lambda action, visit: (
                        text_cell(action["target"]) if action["target"] else JOB(action, visit)
                    ),
                ),
                Column(Text("Attempts"), number("attempts")),
                WHY,
            ),
            Text("No actions."),
        ),
        Table(
            "data",
            Text("Data"),
            lambda event, _: event["data"].items(),
            (
                Column(Text("Field"), lambda pair, _: Cell("text", pair[0])),
                Column(
                    Text("Value"),
                    lambda pair, _: Cell(
                        "code", pair[1] if isinstance(pair[1], str) else dump_json(pair[1])
                    ),
                ),
            ),
            Text("No data."),
        ),
    )

    async def read(self, visit: Visit, key: Any) -> Record:
        """Read an event, with id and name of the run template that each of its rules starts.

        Rules that the visitor may not see, and those beyond `MAX_NAMED`, have the rule's id only.
        """
        event = await super().read(visit, key)
        ids = list(dict.fromkeys(each["eventrule_id"] for each in event["deliveries"]))
        known: dict[int, tuple[int, str]] = {}
        for rule_id in ids[:MAX_NAMED]:
            with suppress(ContractError):  # deleted, or not visible to the visitor
                rule = await visit.get(f"/eventrule/{rule_id}")
                if name := visit.named(rule, "runtemplate_id", ""):
                    known[rule_id] = (rule["runtemplate_id"], name)
        deliveries = [
            {**each, "template": known.get(each["eventrule_id"], (0, ""))}
            for each in event["deliveries"]
        ]
        return {**event, "deliveries": deliveries, "known": known}

    def title(self, record: Record, visit: Visit) -> str:
        return _describe(record, visit)

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return the replays: all that failed, or a single rule."""
        if record["error"] or not visit.who.rights.may("jobs.execute", record["company_id"]):
            return []
        address = f"{page_of('event', record['id'])}/replay"
        failed = Action(Text("Repeat failed starts"), address, posts=True, is_main=True)
        return [
            *([failed] if record["state"] == "dead" else []),
            *(
                Action(
                    Text("Start {template} again", template=name),
                    f"{address}?eventrule_id={rule_id}",
                    posts=True,
                )
                for rule_id, (_, name) in record["known"].items()
            ),
        ]


PAGES = EventPages()
router = PAGES.router()


@router.post(f"{PAGES.item_path}/replay")
async def replay_event(
    event: int, visit: CurrentVisit, eventrule_id: int | None = None
) -> Response:
    """Start a rule for an event again; without one, everything that failed."""
    body = {} if eventrule_id is None else {"eventrule_id": eventrule_id}
    await visit.contract.write("POST", f"/event/{event}/replay.json", body)
    return redirect_after(visit.request, page_of("event", event), "replayed")
