"""Limits of one request: each route with its bounds, taken from the code.

`python -m jobauto_prefect.facade.bounds` writes docs/bounds.md.
"""

import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from jobauto_prefect.bounded_process import WALL_SECONDS
from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.definitions.records.value_rules import LARGEST_VALUE
from jobauto_prefect.engine.api import ANSWER_SECONDS
from jobauto_prefect.engine.prefect_server.database import statement_seconds
from jobauto_prefect.facade import concurrency
from jobauto_prefect.facade.app import add_routes
from jobauto_prefect.facade.apply.applier import LOCK_SECONDS
from jobauto_prefect.facade.apply.contents import MOST_RECORDS
from jobauto_prefect.facade.apply.yaml_parser import MOST_CHARACTERS, MOST_JSON_VALUES, MOST_TOKENS
from jobauto_prefect.facade.auth.identity import STREAM_CHECK_SECONDS
from jobauto_prefect.facade.gateway.forwarding import ITEMS_AT_ONCE, LOCKED_SECONDS
from jobauto_prefect.facade.gateway.middleware import MAX_MEMBERS_BYTES
from jobauto_prefect.facade.gateway.policy.body_rules import MAX_CONDITIONS, MAX_ITEMS, MAX_TAGS
from jobauto_prefect.facade.gateway.request import WORKERS_OTHER_VALUES
from jobauto_prefect.facade.gateway.routes import ROUTES, SOCKETS
from jobauto_prefect.facade.gateway.sockets import (
    FIRST_WITHIN_SECONDS,
    MAX_SOCKETS,
    WORKERS_SOCKETS,
)
from jobauto_prefect.facade.http.body_sizes import ARTIFACTS, FILES, INTERNAL, body_limit
from jobauto_prefect.facade.middleware.identification import OPEN
from jobauto_prefect.facade.openapi.document import document
from jobauto_prefect.facade.resources.lists import DEFAULT_PAGE
from jobauto_prefect.facade.resources.prefect_status import PRUNE_SECONDS
from jobauto_prefect.facade.server_options import SOCKET_BYTES
from jobauto_prefect.facade.service import (
    APPLYING_THREADS,
    FOLLOWING_THREADS,
    MAX_FOLLOWED,
    OUTPUT_THREADS,
)
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.probe import PROBE_SECONDS

PARAMETER = re.compile(r"\{[^}]*\}")
COUNTING = ("limit", "tail")
"""Query parameters that limit the number of records in a response."""

PLANS = f"{APPLYING_THREADS} threads for all"
OUTPUT = (
    f"threads; {OUTPUT_THREADS} for all that is long, {FOLLOWING_THREADS} for all that is followed"
)
LISTS = f"thread; {concurrency.LONG_THREADS} for all lists of more than {DEFAULT_PAGE}"
PEOPLE = f"{concurrency.MAX_CONCURRENT} of a user, {concurrency.MAX_WAITING} wait"
WORKERS = (
    f"{concurrency.WORKERS_CONCURRENT} of a worker's token, {concurrency.WORKERS_WAITING} wait"
)
ARTIFACTS_AT_ONCE = (
    f"{concurrency.ARTIFACTS_CONCURRENT} of a worker's token, {concurrency.WORKERS_WAITING} wait"
)
STRANGERS = f"{concurrency.STRANGERS_CONCURRENT} of an address, {concurrency.MAX_WAITING} wait"
APPLYING = f"1 of a user, {concurrency.MAX_CONCURRENT} wait"
FOLLOWING = f"{PEOPLE}; {MAX_FOLLOWED} followed"

ASKS_PREFECT = f"{ANSWER_SECONDS:g} s for an answer of Prefect"
TIMES = (
    (FILES, f"{LOCK_SECONDS:g} s for its turn"),
    (re.compile(rf"{INTERNAL}v1/(claims|jobs/[^/]+/report)"), f"{WALL_SECONDS:g} s for paths"),
    (
        re.compile(rf"{CONTRACT}/job/[^/]+/output.*"),
        f"followed until the job ends, and the rights asked for every {STREAM_CHECK_SECONDS:g} s",
    ),
    (re.compile(rf"{CONTRACT}/eventsource/[^/]+/test.*"), f"{PROBE_SECONDS:g} s for the test"),
    (re.compile(rf"{CONTRACT}/prune.*"), f"{PRUNE_SECONDS:g} s to delete; {ASKS_PREFECT}"),
    (re.compile(rf"{CONTRACT}/(drift|reconcile|pools).*"), ASKS_PREFECT),
)
"""What else than a statement takes long at a path, and when it ends."""


@dataclass(frozen=True, slots=True)
class RouteBounds:
    """One method of one route.

    `body` is in bytes. `records` is of how many at most it reads or writes; None: of one, or of
    as many as its body holds. `time` says what ends it where it runs long. What is in the event
    loop has 50 milliseconds.
    """

    door: str
    method: str
    path: str
    body: int
    records: int | None
    time: str
    runs_in: str
    at_once: str

    @property
    def bounds(self) -> tuple[Any, ...]:
        """All but which route it is."""
        return self.door, self.body, self.records, self.time, self.runs_in, self.at_once


def facade_bounds(routes: Iterable[BaseRoute], settings: Settings) -> Iterator[RouteBounds]:
    """Yield the bounds of the facade's routes: of the contract, the console and workers."""
    records = dict(_records_of_contract())
    statement = f"{settings.database_answer_seconds:g} s a statement"
    for route in routes:
        if not isinstance(route, APIRoute):
            continue
        for method in sorted(route.methods or ()):
            key = method, PARAMETER.sub("{}", route.path.removeprefix(CONTRACT))
            yield RouteBounds(
                _door(route.path),
                method,
                route.path,
                body_limit(route.path, settings),
                MOST_RECORDS if FILES.fullmatch(route.path) else records.get(key),
                "; ".join(
                    [statement, *(time for paths, time in TIMES if paths.fullmatch(route.path))]
                ),
                _place(route),
                _at_once(route.path),
            )


def _door(path: str) -> str:
    if path.startswith(INTERNAL):
        return "workers"
    return "contract" if path.startswith(f"{CONTRACT}/") else "console"


def _place(route: APIRoute) -> str:
    if FILES.fullmatch(route.path):
        return PLANS
    if "/output" in route.path and route.path.startswith(CONTRACT):
        return OUTPUT
    if route.name.startswith("list "):
        return LISTS
    return "event loop" if inspect.iscoroutinefunction(route.endpoint) else "thread"


def _at_once(path: str) -> str:
    if FILES.fullmatch(path):
        return APPLYING
    if ARTIFACTS.fullmatch(path):
        return ARTIFACTS_AT_ONCE
    if path.startswith(INTERNAL):
        return WORKERS
    if "/output" in path and path.startswith(CONTRACT):
        return FOLLOWING
    return STRANGERS if OPEN.fullmatch(path) else PEOPLE


def _records_of_contract() -> Iterator[tuple[tuple[str, str], int]]:
    """Yield method and path of what the document gives a largest number of records."""
    described = document()
    named: Mapping[str, Any] = described["components"]["parameters"]
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            parameters = [
                named[each["$ref"].rpartition("/")[2]] if "$ref" in each else each
                for each in operation.get("parameters", ())
            ]
            most = [each["schema"]["maximum"] for each in parameters if each["name"] in COUNTING]
            if most:
                yield (method.upper(), PARAMETER.sub("{}", path)), max(most)


def gateway_bounds(settings: Settings) -> Iterator[RouteBounds]:
    """Yield the bounds of requests the gateway forwards to Prefect: for people, and for workers."""
    limit, statement = settings.body_limit_bytes, f"{statement_seconds():g} s a statement"
    for route in ROUTES:
        time = statement
        if route.action is not None:
            time += f"; {LOCKED_SECONDS:g} s more where SQLite is locked"
        body = min(limit, MAX_MEMBERS_BYTES) if route.member_rule is not None else limit
        most = MAX_ITEMS if route.member_rule is not None else None
        loop = "event loop"
        yield RouteBounds("Prefect", route.method, route.path, body, most, time, loop, PEOPLE)
        if route.worker_rule is not None:
            door = "Prefect, workers"
            yield RouteBounds(door, route.method, route.path, limit, None, statement, loop, WORKERS)
    who = f"{MAX_SOCKETS} of a user, {WORKERS_SOCKETS} of a worker's token"
    time = (
        f"{FIRST_WITHIN_SECONDS:g} s to sign in; the rights are asked for every"
        f" {STREAM_CHECK_SECONDS:g} s"
    )
    for socket in SOCKETS:
        yield RouteBounds(
            "Prefect", "socket", socket.path, SOCKET_BYTES, None, time, "event loop", who
        )


def table(settings: Settings) -> list[RouteBounds]:
    """Return the bounds of all routes under these settings."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    add_routes(app, visitors=True)
    return [*facade_bounds(app.routes, settings), *gateway_bounds(settings)]


ABOUT = f"""\
# Bounds of each route

This page lists how large a request of each route may be, how many may run at once, and how long
one may take. `make publish` writes it from the code, with the default settings.

`body` is in bytes, counted as they arrive, whatever the request says. `at once` counts in each
process: further requests wait, and those beyond get 429. `time` ends a request that runs long.
PostgreSQL ends a statement: the service's after `JOBAUTO_DATABASE_ANSWER_SECONDS`, Prefect's after
`PREFECT_SERVER_DATABASE_TIMEOUT`; SQLite has no such bound. Work in an event loop takes at most
50 ms of it at a time.

YAML of `POST /apply` has up to {MOST_CHARACTERS:,} characters, and {MOST_TOKENS:,} words and marks,
in all files together, JSON {MOST_JSON_VALUES:,} values. Prefect is sent
{ITEMS_AT_ONCE["/logs/"]} log lines or {ITEMS_AT_ONCE["/events"]} events at once, however many come,
of one list at a time.
A value of a variable has up to {LARGEST_VALUE:,} bytes.
Other bodies of a worker have up to {WORKERS_OTHER_VALUES:,} values. A list of tags has up to
{MAX_TAGS}, a search for events {MAX_CONDITIONS} conditions of one kind.
[Security](security.md) says what each identity may do.
"""


def page() -> str:
    """Write the text of docs/bounds.md."""
    groups: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for row in table(Settings.model_construct()):
        groups[row.bounds].append(f"`{row.method} {row.path}`")
    lines = [ABOUT, "| door | body | records | time | runs in | at once | routes |"]
    lines.append("|---|---|---|---|---|---|---|")
    for (door, body, records, time, runs_in, at_once), routes in groups.items():
        cells = (door, f"{body:,}", records or "", time, runs_in, at_once, ", ".join(routes))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
