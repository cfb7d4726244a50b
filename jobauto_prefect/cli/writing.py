"""Making planned changes, one record after the other."""

from dataclasses import replace
from typing import Any

from jobauto_prefect.cli.actions import MODES, as_fields
from jobauto_prefect.cli.client import Client
from jobauto_prefect.cli.documents import Document
from jobauto_prefect.cli.kinds import KINDS, NOT_MEMBERS, Record, means, title_of
from jobauto_prefect.cli.known import Known
from jobauto_prefect.cli.plans import Change
from jobauto_prefect.cli.show import counted, hint_warnings
from jobauto_prefect.errors import InvalidInput, JobautoError


class Writer:
    """Writes records in the order of a plan, and learns the ids of the new ones."""

    def __init__(self, client: Client, known: Known) -> None:
        self._client = client
        self._known = known
        self._written: dict[tuple[str, str], int] = {}
        self._apps: dict[int, Record] = dict(known.records["app"])

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
            self._written[change.kind, title_of(change.kind, change.document.content)] = record[
                "id"
            ]

    async def _post(self, change: Change, document: Document) -> Any:
        if change.kind == "app":
            labels = {} if document.labels is None else {"labels": ",".join(document.labels)}
            return await self._post_app(document, labels)
        known = {} if change.number is None else {"id": change.number}
        return await self._client.post(change.kind, self.members(document) | known)

    async def _post_app(self, document: Document, labels: dict[str, str]) -> Any:
        if document.raw is not None:
            record = await self._client.post_raw("app", document.raw, **labels)
        else:
            record = await self._client.post("app", document.content, **labels)
        self._apps[record["id"]] = record
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
                members[one.member] = self._id(one.kind, content[name])
        named = {mode: content[mode] for mode in MODES if mode in content}
        return members | {mode: as_fields(said, self._number) for mode, said in named.items()}

    def _number(self, kind: str, title: str) -> int | None:
        return self._app({"app": title}) if kind == "app" else self._id(kind, title)

    def _app(self, content: Record) -> int:
        """The service knows names in its own language only; a file may use any."""
        return next(number for number, app in self._apps.items() if means(content, app))

    def _id(self, kind: str, title: str) -> int | None:
        written = self._written.get((kind, title))
        return written if written is not None else self._known.titled(kind, title)


def _stopped(change: Change, reason: str, done: int) -> str:
    return (
        f"{change.kind} {change.title} {reason}; {counted(done, 'change')} made before it, "
        "the same command goes on from there"
    )
