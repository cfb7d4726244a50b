"""The audit entries of what only Prefect stores: the intent before, the result after (P2)."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from jobauto_prefect.definitions.masks import MASK
from jobauto_prefect.facade.gateway.reach import Owner
from jobauto_prefect.facade.gateway.table import Route
from jobauto_prefect.ledger.audit import Actor, write_entry
from jobauto_prefect.ledger.store import Ledger

INTEND = "intend"
REFUSE = "refuse"
FAIL = "fail"

SECRET_MEMBERS = frozenset(
    {"data", "value", "job_variables", "base_job_template", "storage_configuration", "context"}
)
"""Members whose values may be secrets, whatever they are called inside."""

SECRET_NAME = re.compile(
    r"pass(word|phrase|wd)|secret|token|api_?key|private|credential", re.IGNORECASE
)
LONGEST_VALUE = 4_000  # characters of a value that an entry repeats
STATES = ("id", "name", "status")
"""Members of Prefect's answer that say what came of it."""


class Trail:
    """Writes the entries of one request; `object_id` is Prefect's id or name of the object."""

    def __init__(
        self, ledger: Ledger, actor: Actor, route: Route, object_id: str, owner: Owner | None
    ) -> None:
        self._ledger = ledger
        self._actor = actor
        self._route = route
        self._object = object_id
        self._owner = owner

    async def intend(self, body: Any, current: Mapping[str, Any]) -> None:
        """Somebody is about to change something; `current` is what it is before."""
        await self._write(INTEND, changes_of(body, current))

    async def done(self, status: int, answer: Any) -> None:
        """Prefect has answered."""
        action = self._route.action if 200 <= status < 300 and self._route.action else FAIL
        told = answer if isinstance(answer, dict) else {}
        said = {name: [None, told[name]] for name in STATES if isinstance(told.get(name), str)}
        await self._write(action, {"http_status": [None, status], **said})

    async def refused(self, reason: str) -> None:
        """It was not passed on."""
        await self._write(REFUSE, {"reason": [None, reason]})

    async def revealed(self) -> None:
        """Secrets are about to be shown."""
        await self._write("reveal", {})

    async def _write(self, action: str, changes: dict[str, Any]) -> None:
        named = {"object": [None, self._object]} if self._object else {}
        asked = {"request": [None, f"{self._route.method} {self._route.path}"]}

        def write() -> None:
            with self._ledger.writing(self._actor) as session:
                write_entry(
                    session,
                    f"Prefect {self._route.kind}",
                    action,
                    asked | named | changes,
                    self._owner.template_id if self._owner else None,
                    self._owner.company_id if self._owner else None,
                )

        await asyncio.to_thread(write)


def changes_of(body: Any, current: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Member -> [before, after], with secrets masked and long values cut."""
    if isinstance(body, list):
        return {"items": [None, _shown("items", body)]}
    if not isinstance(body, dict):
        return {"value": [None, _shown("value", body)]} if body is not None else {}
    return {
        name: [_shown(name, current.get(name)), _shown(name, value)]
        for name, value in body.items()
        if value is not None and current.get(name) != value
    }


def _shown(name: str, value: Any) -> Any:
    masked = _masked(name, value)
    text = json.dumps(masked, ensure_ascii=False)
    return masked if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + " …"


def _masked(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if name in SECRET_MEMBERS or SECRET_NAME.search(name):
        return dict.fromkeys(value, MASK) if isinstance(value, dict) else MASK
    if isinstance(value, dict):
        return {key: _masked(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_masked(name, inner) for inner in value]
    return value
