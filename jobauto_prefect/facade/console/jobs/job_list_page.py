"""The list of jobs, filtered and sorted by its address, with saved searches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode
from uuid import uuid4

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.facade.auth.permissions import Rights
from jobauto_prefect.facade.console.jobs.job_page import JOBS
from jobauto_prefect.facade.console.jobs.labels import line_of
from jobauto_prefect.facade.console.jobs.saved_searches import (
    MAX_NAME,
    MAX_SEARCHES,
    PREDEFINED,
    SavedSearch,
    is_possible,
    keep_searches,
    read_searches,
)
from jobauto_prefect.facade.console.overview import last_midnights
from jobauto_prefect.facade.console.records.forms import SentForm
from jobauto_prefect.facade.console.visit import CurrentVisit
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.ledger.states import JobState

PAGE = 50
PASSED_ON = (
    "runtemplate",
    "runtemplate_id",
    "company_id",
    "app_id",
    "from",
    "to",
    "message",
    "worker",
    "order",
    "cursor",
)
"""Fields of the query that are passed on to the contract's list."""

SINCE: Mapping[str, tuple[str, int]] = {
    "today": ("today", 1),
    "yesterday": ("since yesterday", 2),
    "week": ("in the last seven days", 7),
}
"""The filter by end: label and number of days, today included."""

ORDERS: Mapping[str, str] = {"schedule": "Due", "begin": "Began", "end": "Ended"}

router = late_routes.router(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class ColumnOrder:
    """A column the list can be ordered by; `sorted_as` is its aria-sort."""

    label: str
    href: str
    sorted_as: str


@router.get(JOBS)
async def list_jobs(visit: CurrentVisit) -> Response:
    """List the jobs that match the query."""
    translate, request = visit.translate, visit.request
    asked = normalize_query(request.query_params.multi_items())
    query = {name: asked[name] for name in PASSED_ON if name in asked}
    query |= {"state": asked.get("state", ""), "limit": str(PAGE)}
    if asked.get("since") in SINCE:
        since = last_midnights(visit.now, visit.zone)[-SINCE[asked["since"]][1]]
        query["ended_from"] = since.isoformat()
    view = await visit.read("/jobs", query)
    kept = {name: value for name, value in asked.items() if name != "cursor"}
    following = {**kept, "cursor": view.next_query["cursor"]} if view.next_query else None
    own_searches = read_searches(request)
    known = (*PREDEFINED, *own_searches)
    searches = [SavedSearch(translate(search.name), search.query) for search in PREDEFINED]
    return visit.respond(
        "jobs/jobs.html",
        translate("Jobs"),
        jobs=[line_of(job, visit) for job in view.data.values()],
        total=view.total,
        asked=asked,
        states=[(state, translate(state)) for state in JobState],
        chosen_states=asked.get("state", "").split(","),
        since=[(name, translate(label)) for name, (label, _) in SINCE.items()],
        companies=await visit.choices("companies"),
        applications=await visit.choices("apps"),
        only_template=await visit.only_template(),
        columns=_column_orders(kept, translate),
        searches=searches,
        own_searches=own_searches,
        query=urlencode(kept, safe=","),
        can_save=kept not in [dict(parse_qsl(search.query)) for search in known],
        is_narrowed=bool(set(kept) - {"order"}),
        next_href=f"{JOBS}?{urlencode(following, safe=',')}" if following else "",
        first_href=f"{JOBS}?{urlencode(kept, safe=',')}" if "cursor" in asked else "",
        contract_href=f"{CONTRACT}/jobs.html?{urlencode({**query, 'limit': ''}, safe=',')}",
        allowed=bulk_actions(visit.who.rights),
        key=uuid4().hex,
    )


@router.post(f"{JOBS}/searches/add")
async def add_search(request: Request, form: SentForm) -> Response:
    """Save a search of the visitor's own; one with the same name is replaced."""
    search = SavedSearch(" ".join(form.get("name", "").split())[:MAX_NAME], form.get("query", ""))
    others = [other for other in read_searches(request) if other.name != search.name]
    answer = RedirectResponse(f"{search.href if is_possible(search) else JOBS}", 303)
    if is_possible(search) and len(others) < MAX_SEARCHES:
        keep_searches(request, answer, [*others, search])
    return answer


@router.post(f"{JOBS}/searches/remove")
async def remove_search(request: Request, form: SentForm) -> Response:
    """Delete a search of the visitor's own."""
    answer = RedirectResponse(JOBS, 303)
    name = form.get("name", "")
    keep_searches(
        request, answer, [search for search in read_searches(request) if search.name != name]
    )
    return answer


def normalize_query(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the known, non-empty fields of a query; states are joined by commas."""
    states = [value for name, value in pairs if name == "state" and value]
    fields = {"state": ",".join(dict.fromkeys(",".join(states).split(",")))} if states else {}
    return fields | {
        name: value
        for name, value in pairs
        if value and name in (*PASSED_ON, "since") and name != "state"
    }


def bulk_actions(rights: Rights) -> Sequence[str]:
    """Return the bulk actions that a visitor may use in at least one company."""
    needed = {
        "retry": ("jobs.execute", "jobs.create"),
        "cancel": ("jobs.execute",),
        "excuse": ("jobs.update",),
    }
    return [
        action for action, permissions in needed.items() if any(map(rights.anywhere, permissions))
    ]


def _column_orders(kept: Mapping[str, str], translate: Translator) -> dict[str, ColumnOrder]:
    orders = {}
    for name, label in ORDERS.items():
        present = kept.get("order", "")
        state = {name: "ascending", f"-{name}": "descending"}.get(present, "none")
        wanted = name if present == f"-{name}" else f"-{name}"
        href = f"{JOBS}?{urlencode({**kept, 'order': wanted}, safe=',')}"
        orders[name] = ColumnOrder(translate(label), href, state)
    return orders
