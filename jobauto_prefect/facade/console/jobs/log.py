"""A job's log: a section of it, the lines written since, and the whole as a download.

A section is the end, what is before a line, or the lines that contain a text.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.concurrency import long_work
from jobauto_prefect.facade.console.contract import Contract, CurrentContract
from jobauto_prefect.facade.console.jobs.terminal_text import (
    ESCAPE,
    MAX_LINE,
    TerminalText,
    TextPart,
)
from jobauto_prefect.facade.console.visit import CurrentVisit
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.ledger.states import LIVE_JOBS

PAGE_LINES = 1000
PAGE_CHARACTERS = 1_000_000  # including markup; fewer lines are shown if they are long
PART_MARKUP = 100
"""What a highlighted or coloured text counts besides itself: its markup has up to 30 characters,
and it takes as long to make as many more."""

MAX_LIVE_LINES = 5000  # on a live page; beyond that it restarts with the end of the log
CONTEXT_LINES = 200  # lines after a match
MAX_SOUGHT = 255  # characters

LineNumber = Annotated[int, Query(ge=0, lt=2**31)]

router = late_routes.router(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line; `number` counts over all streams."""

    number: int
    is_error: bool
    at: str
    parts: Sequence[TextPart]


@dataclass(frozen=True, slots=True)
class LogSection:
    """Lines, with links to the others.

    `earlier` and `end` are addresses of the page with other lines, `next_lines` is the address of
    new lines; each is "" if there are none. `replaces_all`: the lines replace all shown before.
    """

    job_id: int
    lines: Sequence[LogLine]
    state: str
    sought: str = ""
    earlier: str = ""
    end: str = ""
    next_lines: str = ""
    replaces_all: bool = False

    def context_of(self, number: int) -> str:
        """Return the address of the page that shows a line in its context."""
        return _page(self.job_id, f"L{number}", before=number + CONTEXT_LINES)


async def read_log(
    contract: Contract,
    job_id: int,
    shown_state: str,
    *,
    before: int | None = None,
    sought: str = "",
) -> LogSection:
    """Read the end of a log, or of what is before a line; with `sought` only lines that contain it.

    `shown_state` is the state that the page shows: the job may have another one by now, and then
    the first look for new lines reloads the page.

    Raises:
        ContractError: the job does not exist, or the visitor may not see it.
    """
    sought = sought.replace("\0", "")[:MAX_SOUGHT]
    query = {"tail": PAGE_LINES, "before": before, "find": sought}
    answer = await contract.fetch(f"/job/{job_id}/output.json", query)
    lines = await asyncio.to_thread(long_work.compute, _lines_of, answer, sought)
    is_cut = len(lines) < len(answer["lines"]) or len(lines) == PAGE_LINES
    has_earlier = is_cut if sought else bool(lines) and lines[0].number > 1
    follows = before is None and not sought and shown_state in LIVE_JOBS
    first = lines[0].number if lines else 1
    return LogSection(
        job_id=job_id,
        lines=lines,
        state=answer["state"],
        sought=sought,
        earlier=_page(job_id, before=first, find=sought) if has_earlier else "",
        end="" if before is None else _page(job_id, find=sought),
        next_lines=_next(job_id, answer["last"], shown_state, first) if follows else "",
    )


async def read_next_lines(contract: Contract, job_id: int, after: int, first: int) -> LogSection:
    """Read the lines after a line, for a page that shows the lines from `first` on.

    Raises:
        ContractError: the job does not exist, or the visitor may not see it.
    """
    query = {"tail": PAGE_LINES, "after": after}
    answer = await contract.fetch(f"/job/{job_id}/output.json", query)
    lines = await asyncio.to_thread(long_work.compute, _lines_of, answer)
    has_gap = bool(lines) and lines[0].number > after + 1
    state = answer["state"]
    if has_gap or answer["last"] - first >= MAX_LIVE_LINES:
        return replace(await read_log(contract, job_id, state), replaces_all=True)
    next_lines = _next(job_id, answer["last"], state, first) if state in LIVE_JOBS else ""
    return LogSection(job_id, lines, state, next_lines=next_lines)


def _lines_of(answer: Mapping[str, Any], sought: str = "") -> list[LogLine]:
    """Return the last lines of an answer that fit on a page.

    Only those are parsed for terminal colours: many colours take long.
    """
    terminals = defaultdict[str, TerminalText](TerminalText)
    return [
        LogLine(
            number=line["seq"],
            is_error=line["stream"] == "stderr",
            at=line["at"],
            parts=terminals[line["stream"]].parts_of(line["text"], sought),
        )
        for line in _last_that_fit(answer["lines"], sought)
    ]


def _last_that_fit(lines: Sequence[Mapping[str, Any]], sought: str) -> Sequence[Mapping[str, Any]]:
    """Return the last lines that fit on a page, at least one if there are any."""
    room, first = PAGE_CHARACTERS, len(lines)
    while first > 0:
        text = lines[first - 1]["text"]
        # The most characters that the line can take on the page, markup included.
        places = text.lower().count(sought.lower()) if sought else 0
        parts = 1 + min(text.count(ESCAPE) + 2 * places, MAX_LINE)
        room -= min(len(text), MAX_LINE) + parts * PART_MARKUP
        if room < 0 and first < len(lines):
            break
        first -= 1
    return lines[first:]


def _page(job_id: int, place: str = "log", **query: Any) -> str:
    fields = urlencode({name: value for name, value in query.items() if value})
    return f"{CONSOLE}/jobs/{job_id}{'?' if fields else ''}{fields}#{place}"


def _next(job_id: int, last: int, state: str, first: int) -> str:
    query = {"after": last, "first": first, "state": state}
    return f"{CONSOLE}/jobs/{job_id}/log?{urlencode(query)}"


@router.get(f"{CONSOLE}/jobs/{{job_id:int}}/log")
async def show_next_lines(
    job_id: int,
    visit: CurrentVisit,
    after: LineNumber = 0,
    first: LineNumber = 1,
    state: str = "",
) -> Response:
    """Send new lines with the address of the next; reload the page if the job's state changed."""
    log = await read_next_lines(visit.contract, job_id, after, first)
    answer = visit.respond("jobs/next_lines.html", "", log=log)
    if log.state != state:
        answer.headers["HX-Refresh"] = "true"
    if log.replaces_all:
        answer.headers["HX-Retarget"] = "#lines"
        answer.headers["HX-Reswap"] = "innerHTML"
    return answer


@router.get(f"{CONSOLE}/jobs/{{job_id:int}}/log.txt")
async def download_log(job_id: int, contract: CurrentContract) -> Response:
    """Send all lines as a download."""
    headers = {"Content-Disposition": f'attachment; filename="job-{job_id}.txt"'}
    return contract.pass_on(f"/job/{job_id}/output.txt", headers)


@router.get(f"{CONSOLE}/artifacts/{{artifact_id:int}}")
async def download_artifact(artifact_id: int, contract: CurrentContract) -> Response:
    """Send a file with the contract's headers, which keep browsers from executing it."""
    return contract.pass_on(f"/artifact/{artifact_id}")
