"""Making planned changes, one record after the other."""

import json
from dataclasses import replace
from typing import Any

from jobauto_prefect.cli.client import Client
from jobauto_prefect.cli.show import counted, hint_warnings
from jobauto_prefect.errors import InvalidInput, JobautoError
from jobauto_prefect.facade.apply.actions import MODES, as_fields
from jobauto_prefect.facade.apply.documents import Document
from jobauto_prefect.facade.apply.kinds import (
    KINDS,
    NOT_MEMBERS,
    OWNED,
    Record,
    definition_in,
    meant,
    owner_in,
    says_owner,
    title_of,
    titles_meant,
)
from jobauto_prefect.facade.apply.known import Known
from jobauto_prefect.facade.apply.plans import Change


class Writer:
    """Writes records in the order of a plan, and learns the ids of the new ones."""

    def __init__(self, client: Client, known: Known) -> None:
        self._client = client
        self._known = known
        self._written: dict[tuple[str, str], int] = {}
        self._apps: dict[int, Record] = dict(known.records["app"])
        self._topics: list[dict[str, Any]] = []

    async def write(self, change: Change, done: int) -> None:
        """Write one; `done` is how many were written before it.

        Raises:
            InvalidInput: with its place in the file.
        """
        try:
            await self._write(change)
        except InvalidInput as error:
            place = change.document.placed if change.document else lambda fault: fault
            faults = [place(replace(fault, line=None)) for fault in error.faults]
            raise InvalidInput(faults, _stopped(change, "is refused", done)) from None
        except JobautoError as error:
            raise type(error)(_stopped(change, f"is refused: {error}", done)) from None

    async def _write(self, change: Change) -> None:
        if change.action == "delete":
            await self._client.delete(f"/{change.kind}/{change.number}.json")
        elif change.action == "restore":
            await self._client.post(change.kind, {"id": change.number})
        elif change.document is not None:
            record = await self._post(change, change.document)
            hint_warnings(f"{change.kind} {change.title}", record)
            content = self._known.with_owner(change.kind, change.document.content)
            self._written[change.kind, title_of(change.kind, content)] = record["id"]

    async def _post(self, change: Change, document: Document) -> Any:
        known = {} if change.number is None else {"id": change.number}
        if change.kind == "app":
            labels = {} if document.labels is None else {"labels": ",".join(document.labels)}
            return await self._post_app(document, {**known, **labels})
        members = self.members(document) | known
        if change.kind != "company" or not members.get("topics"):
            return await self._client.post(change.kind, members)
        # Its own topics can't be there before it is.
        topics = members.pop("topics")
        record = await self._client.post(change.kind, members)
        self._topics.append({"id": record["id"], "topics": topics})
        return record

    async def finish(self) -> None:
        """Write what had to wait for other records."""
        for members in self._topics:
            await self._client.post("company", members)

    async def _post_app(self, document: Document, query: dict[str, Any]) -> Any:
        content = document.content
        raw = document.raw
        if says_owner("app", content):
            query = query | {"company_id": self._id("company", owner_in("app", content)) or ""}
            raw = None
        text = json.dumps(definition_in(content), ensure_ascii=False, indent=2).encode()
        record = await self._client.post_definition(raw or text, **query)
        owned = self._known.with_owner("app", content)
        self._apps[record["id"]] = {**record, "company": owner_in("app", owned)}
        return record

    def members(self, document: Document) -> dict[str, Any]:
        """As the facade takes them: references as ids."""
        content = document.content
        apart = {*NOT_MEMBERS, "app_uuid", *KINDS[document.kind or ""].references}
        members = {name: value for name, value in content.items() if name not in apart}
        if document.labels is not None:
            members["labels"] = list(document.labels)
        for name, one in KINDS[document.kind or ""].references.items():
            if one.kind == "app":
                members[one.member] = self._app(content)
            elif content.get(name) is not None:
                members[one.member] = self._id(one.kind, content[name], content.get("company"))
        if document.kind in OWNED and says_owner(document.kind, content):
            members.setdefault("company_id", None)
        named = {mode: content[mode] for mode in MODES if mode in content}

        def number(kind: str, title: str) -> int | None:
            app = {"app": title, "company": content["company"]}
            return self._app(app) if kind == "app" else self._id(kind, title)

        return members | {mode: as_fields(said, number) for mode, said in named.items()}

    def _app(self, content: Record) -> int:
        """The service knows names in its own language only; a file may use any."""
        found: int = meant(content, self._apps.values())[0]["id"]
        return found

    def _id(self, kind: str, title: str | None, company: str | None = None) -> int | None:
        if title is None:
            return None
        for wanted in titles_meant(kind, title, company):
            written = self._written.get((kind, wanted))
            found = written if written is not None else self._known.titled(kind, wanted)
            if found is not None:
                return found
        return None


def _stopped(change: Change, reason: str, done: int) -> str:
    return (
        f"{change.kind} {change.title} {reason}; {counted(done, 'change')} made before it, "
        "the same command goes on from there"
    )
