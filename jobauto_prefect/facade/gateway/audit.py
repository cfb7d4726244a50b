"""Audit entries for what only Prefect stores: the intent before, the result after (P2)."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.facade.gateway.policy.owners import Owner
from jobauto_prefect.facade.gateway.routes import Route
from jobauto_prefect.ledger.audit.trail import Actor, has_refusal, write_entry
from jobauto_prefect.ledger.store import Ledger

INTEND = "intend"
REFUSE = "refuse"
FAIL = "fail"

STRAY_KIND = "Prefect deployment"

SECRET_FIELDS = frozenset(
    {"data", "value", "job_variables", "base_job_template", "storage_configuration", "context"}
)
"""Fields whose values may be secrets, whatever their keys are called."""

SECRET_NAME = re.compile(
    r"pass(word|phrase|wd)|secret|token|api_?key|private|credential", re.IGNORECASE
)
MAX_VALUE_LENGTH = 4_000  # maximum characters of a value in an entry
RESULT_FIELDS = ("id", "name", "status")
"""Fields of Prefect's response that are recorded."""


class AuditRecorder:
    """Writes the entries for one request; `object_id` is Prefect's id or name of the object."""

    def __init__(
        self, ledger: Ledger, actor: Actor, route: Route, object_id: str, owner: Owner | None
    ) -> None:
        self._ledger = ledger
        self._actor = actor
        self._route = route
        self._object = object_id
        self._owner = owner

    async def record_intent(self, body: Any, current: Mapping[str, Any]) -> None:
        """Record that an object is about to be changed; `current` is its present state."""
        await self._write(INTEND, await asyncio.to_thread(describe_changes, body, current))

    async def record_result(self, status: int, answer: Any) -> None:
        """Record what Prefect answered."""
        action = self._route.action if 200 <= status < 300 and self._route.action else FAIL
        fields = answer if isinstance(answer, dict) else {}
        results = {
            name: [None, fields[name]]
            for name in RESULT_FIELDS
            if isinstance(fields.get(name), str)
        }
        await self._write(action, {"http_status": [None, status], **results})

    async def record_refusal(self, reason: str) -> None:
        """Record that the request was not forwarded."""
        await self._write(REFUSE, {"reason": [None, reason]})

    async def record_reveal(self) -> None:
        """Record that secrets are about to be revealed."""
        await self._write("reveal", {})

    async def _write(self, action: str, changes: dict[str, Any]) -> None:
        target = {"object": [None, self._object]} if self._object else {}
        request = {"request": [None, f"{self._route.method} {self._route.path}"]}

        def write() -> None:
            with self._ledger.writing(self._actor) as session:
                write_entry(
                    session,
                    f"Prefect {self._route.kind}",
                    action,
                    request | target | changes,
                    self._owner.template_id if self._owner else None,
                    self._owner.company_id if self._owner else None,
                )

        await asyncio.to_thread(write)


class StrayRecorder:
    """Records, once for each, whose runs are ended because they belong to no run template."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._recorded: set[str] = set()
        self._one_by_one = asyncio.Lock()

    async def record(self, actor: Actor, stray: str, reason: str) -> None:
        """Record that the runs of a deployment, or a work pool's runs without one, are ended."""
        async with self._one_by_one:
            if stray not in self._recorded:
                await asyncio.to_thread(self._write, actor, stray, reason)
                self._recorded.add(stray)

    def _write(self, actor: Actor, stray: str, reason: str) -> None:
        with self._ledger.writing(actor) as session:
            if not has_refusal(session, STRAY_KIND, stray):
                changes = {"object": [None, stray], "reason": [None, reason]}
                write_entry(session, STRAY_KIND, REFUSE, changes)


def describe_changes(body: Any, current: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Map each field to [before, after], with secrets masked and long values cut."""
    if isinstance(body, list):
        return {"items": [None, _shorten("items", body)]}
    if not isinstance(body, dict):
        return {"value": [None, _shorten("value", body)]} if body is not None else {}
    return {
        name: [_shorten(name, current.get(name)), _shorten(name, value)]
        for name, value in body.items()
        if value is not None and current.get(name) != value
    }


def _shorten(name: str, value: Any) -> Any:
    masked = _mask(name, value)
    text = json.dumps(masked, ensure_ascii=False)
    return masked if len(text) <= MAX_VALUE_LENGTH else text[:MAX_VALUE_LENGTH] + " …"


def _mask(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if name in SECRET_FIELDS or SECRET_NAME.search(name):
        return dict.fromkeys(value, MASK) if isinstance(value, dict) else MASK
    if isinstance(value, dict):
        return {key: _mask(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_mask(name, inner) for inner in value]
    return value
