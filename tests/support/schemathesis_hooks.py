"""What schemathesis is told of this service, in its own process (`SCHEMATHESIS_HOOKS`)."""

import itertools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import schemathesis
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.generation.meta import TestPhase
from schemathesis.openapi.checks import (
    AllowHeaderMismatch,
    RejectedPositiveData,
    UnsupportedMethodResponse,
)

from jobauto_prefect.facade.openapi.schemas import BODIES, load_examples
from jobauto_prefect.settings import Settings

TOKEN = os.environ["JOBAUTO_TEST_TOKEN"]
LEAVER = json.loads(os.environ["JOBAUTO_TEST_LEAVER"])
SEEDED = int(os.environ["JOBAUTO_TEST_SEEDED"])
"""Records of each kind that are there and stay, with ids from 1."""

DISPOSABLE: Mapping[str, list[int]] = json.loads(os.environ["JOBAUTO_TEST_DISPOSABLE"])
"""Record kind -> ids of records that nothing depends on: to be deleted."""

TOKEN_OWNER = 3
"""Id of the user whose tokens may be revoked."""

SPARED = json.loads(os.environ["JOBAUTO_TEST_SPARED"])
"""Ids of the users whose roles, names and passwords the requests themselves need."""

ANSWERS = Path(os.environ["JOBAUTO_TEST_ANSWERS"])
"""Where each answer's operation, status and body are noted."""

BODY_LIMIT: int = Settings.model_fields["body_limit_bytes"].default

MADE_UP = 60  # greater ids are out of thin air; the others may come from an answer

REASONS = frozenset(
    {
        "reference", "required", "unknown", "fixed",  # depends on records
        "duplicate",  # in query and body
        "undeclared", "name",  # variables: what an application declares, and what is unsafe
        "deadline", "target", "ambiguous",  # one member against another, or the record's
        "cycle",  # ways round
        "command", "image", "selector", "mismatch",  # what this installation, or a record, has
        "cursor", "json", "cron",  # languages of their own
        "date", "time", "order",  # a 30th of February, an end before its start
        "min_length", "login", "common", "text",  # passwords
        "reused",  # an idempotency key
        "secret",  # one that was given for another address
    }
)  # fmt: skip
"""Rules that no JSON Schema can say."""


@schemathesis.auth(refresh_interval=None)
class SignedIn:
    """The token of a super_admin; one of their own for requests that revoke it."""

    def get(self, case: schemathesis.Case, _context: Any) -> str:
        if case.path != "/logout":
            return TOKEN
        answer = httpx.post(f"{case.operation.base_url}/login.json", json=LEAVER, timeout=60)
        token: str = answer.raise_for_status().json()["token"]
        return token

    def set(self, case: schemathesis.Case, data: str, _context: Any) -> None:
        case.headers["Authorization"] = f"Bearer {data}"


@schemathesis.hook
def before_call(_context: Any, case: schemathesis.Case, _kwargs: dict[str, Any]) -> None:
    """Valid requests speak of records that are there, and none takes the tester's rights away."""
    if case.meta is not None and case.meta.generation.mode.is_positive:
        _steer(case, in_sequence=case.meta.phase.name == TestPhase.STATEFUL)
    if str(case.query.get("follow")).lower() in ("true", "1"):
        del case.query["follow"]  # these jobs wait for ever
    for fields in (case.path_parameters, case.query, _body_of(case)):
        _spare(case, fields)


@schemathesis.hook
def after_call(_context: Any, case: schemathesis.Case, response: schemathesis.Response) -> None:
    """Note what came: the test looks at it afterwards."""
    text = response.content.decode(errors="replace") if response.status_code < 300 else ""
    noted = [f"{case.method} {case.operation.path}", response.status_code, text]
    with ANSWERS.open("a") as file:
        file.write(json.dumps(noted) + "\n")


def _body_of(case: schemathesis.Case) -> dict[str, Any]:
    return case.body if isinstance(case.body, dict) else {}


def _complete(case: schemathesis.Case, body: dict[str, Any]) -> None:
    """Name a record once; and where none is, give what a new one needs: few are ever made else."""
    item = case.path.strip("/").partition("/")[0]
    if item not in BODIES:
        return
    if case.path == "/job/":
        case.query.clear()
        body.pop("id", None)
    body.pop(f"{item}_id", None)
    if case.path_parameters or case.query:
        body.pop("id", None)
    elif "id" not in body:
        number = len(json.dumps(body)) % 40
        for name, value in load_examples()[BODIES[item]].items():
            is_key = name in ("slug", "name", "login", "code") and isinstance(value, str)
            body.setdefault(name, f"{value}-{number}" if is_key else value)


def _steer(case: schemathesis.Case, *, in_sequence: bool) -> None:
    body = _body_of(case)
    case.query.pop("cursor", None)
    case.query.pop("definition", None)  # it says what the body is, and none of ours is that
    if case.method == "POST" and "suffix" in case.path_parameters:
        case.path_parameters["suffix"] = "json"  # links are read from it
    if body is case.body:
        _complete(case, body)
    for fields in (case.path_parameters, case.query, body):
        for name, value in fields.items():
            is_id = name in ("id", "launched_by") or name.lower().endswith("id")
            beyond = value > (MADE_UP if in_sequence else SEEDED) if _is_id(value) else False
            if is_id and beyond:
                fields[name] = value % SEEDED + 1
    body |= {name: say(body) for name, say in WORDS.items() if body.get(name) is not None}
    if not in_sequence:
        _lead(case, body)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _lead(case: schemathesis.Case, body: dict[str, Any]) -> None:
    """To a record that is in the state which the operation needs."""
    path, number = case.operation.path, next(NUMBERS)
    item, parameters = path.strip("/").partition("/")[0], case.path_parameters
    if path.startswith("/login"):
        case.query.clear()
        if body is case.body:
            body.clear()
            body |= LEAVER
        else:
            case.query |= LEAVER
    elif path == "/logout":
        body.pop("token", None)
    elif path == "/company/{companyId}/user/{userId}":
        company = number % SEEDED + 1
        parameters |= {"companyId": company, "userId": company + 1}
    elif case.method == "DELETE" and item in DISPOSABLE:
        _dispose(parameters, item, number)
    elif case.method == "DELETE":
        case.query["dry_run"] = True
        case.query.setdefault("company_id", 1)
    elif item == "task" and case.method == "POST":
        parameters["taskId"] = (2, 4) if "retry" in path else (6, 8)
        parameters["taskId"] = parameters["taskId"][number % 2]
    elif item == "worker":
        parameters["workerName"] = f"w{number % SEEDED + 1}"
    elif path.startswith("/event/") and case.method == "POST" and body is case.body:
        body["eventrule_id"] = parameters["eventId"]


def _dispose(parameters: dict[str, Any], item: str, number: int) -> None:
    """Lead a request that deletes something to what nothing depends on."""
    if "tokenId" in parameters:
        item, parameters["userId"] = "token", TOKEN_OWNER
    name = "tokenId" if item == "token" else next(iter(parameters.keys() - {"suffix"}))
    parameters[name] = DISPOSABLE[item][number % len(DISPOSABLE[item])]


NUMBERS = itertools.count()


def _seeded(word: str) -> Callable[[dict[str, Any]], str]:
    """The key of a record that is there: `company-3`."""
    return lambda body: f"{word}-{len(json.dumps(body)) % SEEDED + 1}"


WORDS: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "company": _seeded("company"),
    "app": _seeded("App"),
    "credential_type": _seeded("type"),
    "timezone": lambda _: "Europe/Prague",
    "password": lambda _: "dlouhé heslo 7",
    "env": lambda body: {"MOUNT_POINT": str(len(body))},
}
"""Members that mean something to the service: what they say in a valid body."""


def _spare(case: schemathesis.Case, fields: dict[str, Any]) -> None:
    """Lead what would change somebody whom the requests need to somebody else."""
    if "/user" not in case.path:
        return
    for name in ("userId", "id", "user_id"):
        if _number(fields.get(name)) in SPARED:
            fields[name] = 2
    if fields.get("login") in ("root", LEAVER["login"]):
        fields["login"] = "toor"


def _number(value: Any) -> float | None:
    """In every spelling that the service could take for a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


ALIASES = ("/runtemplate/", "/eventrule/")
"""Where one client's further methods are answered: GET as the list, PUT as POST (migration.md)."""


@schemathesis.hook
def filter_failure(
    _context: Any, failure: Exception, case: schemathesis.Case, response: schemathesis.Response
) -> bool:
    """A valid request may be refused for a reason that no schema can say, and no other.

    413 is a refusal like 400 where the body is larger than the service takes, 412 one where a new
    record is asked for and there is one.
    """
    if isinstance(failure, UnsupportedMethodResponse | AllowHeaderMismatch):
        return not case.path.startswith(ALIASES)
    judges_the_refusal = isinstance(failure, AcceptedNegativeData | RejectedPositiveData)
    if judges_the_refusal and response.status_code == 413:
        # A text of a million characters is several times as many bytes: no schema counts those.
        return len(response.request.body or b"") <= BODY_LIMIT
    if isinstance(failure, RejectedPositiveData) and response.status_code == 412:
        return "If-None-Match" not in response.request.headers
    if not isinstance(failure, RejectedPositiveData) or response.status_code not in (400, 422):
        return True
    if response.headers["content-type"] != ["application/json"]:
        return False  # the other formats say the same
    faults = response.json().get("details", [])
    return not faults or any(fault["rule"] not in REASONS for fault in faults)
