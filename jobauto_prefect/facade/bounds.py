"""What one request may take: each route with its bounds, as the code has them.

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

from jobauto_prefect.facade.app import add_routes
from jobauto_prefect.facade.apply.contents import MOST_RECORDS
from jobauto_prefect.facade.gateway.policy.body_rules import MAX_ITEMS
from jobauto_prefect.facade.gateway.routes import ROUTES, SOCKETS
from jobauto_prefect.facade.http.addresses import CONTRACT
from jobauto_prefect.facade.http.body_sizes import FILES, INTERNAL, body_limit
from jobauto_prefect.facade.middleware import concurrency
from jobauto_prefect.facade.middleware.identification import OPEN
from jobauto_prefect.facade.openapi.document import document
from jobauto_prefect.facade.server_options import SOCKET_BYTES
from jobauto_prefect.facade.service import APPLYING_THREADS, FOLLOWING_THREADS, MAX_FOLLOWED
from jobauto_prefect.settings import Settings

PARAMETER = re.compile(r"\{[^}]*\}")
COUNTING = ("limit", "tail")
"""Query parameters that say of how many records an answer is."""

PLANS = f"{APPLYING_THREADS} threads for all"
OUTPUT = f"threads; {FOLLOWING_THREADS} for all that is followed"
PEOPLE = f"{concurrency.MAX_CONCURRENT} of a user, {concurrency.MAX_WAITING} wait"
WORKERS = (
    f"{concurrency.WORKERS_CONCURRENT} of a worker's token, {concurrency.WORKERS_WAITING} wait"
)
STRANGERS = f"{concurrency.STRANGERS_CONCURRENT} of an address, {concurrency.MAX_WAITING} wait"
APPLYING = f"1 of a user, {concurrency.MAX_CONCURRENT} wait"
FOLLOWING = f"{PEOPLE}; {MAX_FOLLOWED} followed"


@dataclass(frozen=True, slots=True)
class RouteBounds:
    """One method of one route.

    `body` is in bytes. `records` is of how many at most it reads or writes; None: of one, or of
    as many as its body holds. A statement in a thread has the seconds of
    `JOBAUTO_DATABASE_ANSWER_SECONDS`, what is in the event loop 50 milliseconds.
    """

    door: str
    method: str
    path: str
    body: int
    records: int | None
    runs_in: str
    at_once: str

    @property
    def bounds(self) -> tuple[Any, ...]:
        """All but which route it is."""
        return self.door, self.body, self.records, self.runs_in, self.at_once


def facade_bounds(routes: Iterable[BaseRoute], settings: Settings) -> Iterator[RouteBounds]:
    """Yield the bounds of the facade's routes: of the contract, the console and workers."""
    records = dict(_records_of_contract())
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
    return "event loop" if inspect.iscoroutinefunction(route.endpoint) else "thread"


def _at_once(path: str) -> str:
    if FILES.fullmatch(path):
        return APPLYING
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
    """Yield the bounds of what the gateway passes on to Prefect."""
    for route in ROUTES:
        who = PEOPLE if route.worker_rule is None else f"{PEOPLE}; {WORKERS}"
        most = MAX_ITEMS if route.member_rule is not None else None
        limit = settings.body_limit_bytes
        yield RouteBounds("Prefect", route.method, route.path, limit, most, "event loop", who)
    for socket in SOCKETS:
        yield RouteBounds(
            "Prefect", "socket", socket.path, SOCKET_BYTES, None, "event loop", "any number"
        )


def table(settings: Settings) -> list[RouteBounds]:
    """Return the bounds of all routes under these settings."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    add_routes(app, visitors=True)
    return [*facade_bounds(app.routes, settings), *gateway_bounds(settings)]


ABOUT = """\
# Bounds of each route

Made by `make publish` from the code, with the settings as they are by default. `body` is in bytes,
counted as they come, whatever the request says of them. `at once` is in each process: further
requests wait, those beyond get 429. In a thread, a statement has `JOBAUTO_DATABASE_ANSWER_SECONDS`.
[Security](security.md) says what each identity may do.
"""


def page() -> str:
    """Write the text of docs/bounds.md."""
    groups: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for row in table(Settings.model_construct()):
        groups[row.bounds].append(f"`{row.method} {row.path}`")
    lines = [ABOUT, "| door | body | records | runs in | at once | routes |"]
    lines.append("|---|---|---|---|---|---|")
    for (door, body, records, runs_in, at_once), routes in groups.items():
        cells = (door, f"{body:,}", records or "", runs_in, at_once, ", ".join(routes))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
