"""Imports definitions and credential types from files."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobauto_prefect.cli.connection.client import Client
from jobauto_prefect.cli.files.reader import find_files, load_documents
from jobauto_prefect.cli.output.terminal import print_grouped_hints, print_line, warning_messages
from jobauto_prefect.errors import Conflict, Fault
from jobauto_prefect.facade.apply.documents import Document, check_document
from jobauto_prefect.facade.apply.record_kinds import APPS, NOT_MEMBERS, localized
from jobauto_prefect.facade.apply.validation import raise_faults
from jobauto_prefect.wording import escape_controls

STYLES = {"created": "green", "updated": "yellow", "unchanged": "dim", "refused": "red"}


@dataclass(frozen=True, slots=True)
class Imported:
    """The result for one definition: `created`, `updated`, `unchanged` or `refused`."""

    file: str
    action: str
    record: Mapping[str, Any]
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON."""
        named = {name: self.record.get(name) for name in ("id", "name", "version", "uuid")}
        reason = {"reason": self.reason} if self.reason else {}
        return {"file": self.file, "action": self.action, **named, **reason}


def read_valid_documents(
    paths: Sequence[Path], kind: str, accepted: Collection[str | None]
) -> tuple[list[Document], list[Fault]]:
    """Read the records of one kind from the files, all valid, and the warnings about them.

    `accepted` are the kinds that files in folders may have, None for files without a kind; other
    files are skipped.

    Raises:
        InvalidInput: the errors of all files.
    """
    documents: list[Document] = []
    faults: list[Fault] = []
    warnings: list[Fault] = []
    for path in find_files(paths):
        loaded, unread = load_documents(path)
        faults += unread
        for document in loaded:
            if path in paths or document.kind in accepted:
                verdict = check_document(document, kind)
                faults += verdict.faults
                warnings += verdict.warnings
                documents.append(document)
    raise_faults(list(dict.fromkeys(faults)))
    return documents, warnings


async def import_definitions(
    client: Client, documents: Sequence[Document], force: bool, done: Callable[[Imported], None]
) -> None:
    """Import definitions, calling `done` with each result; continue after a refused one."""
    times = {app["id"]: app["updated_at"] for app in (await client.list("apps")).values()}
    companies = await _find_companies(client, documents)
    for document in documents:
        text = json.dumps(APPS.definition(document.content), ensure_ascii=False, indent=2).encode()
        query: dict[str, Any] = {"force": "true"} if force else {}
        owner = APPS.owner(document.content)
        if owner is not None:
            query["company_id"] = companies[owner]
        raw = None if APPS.says_owner(document.content) else document.raw
        try:
            record = await client.post_definition(raw or text, **query)
        except Conflict as error:
            reason = f"{error} (--force)" if "force" in str(error) else str(error)
            done(Imported(document.file, "refused", document.content, reason))
            continue
        done(Imported(document.file, _action(times, record), record))


def _action(times: dict[int, str], record: Mapping[str, Any]) -> str:
    """Return what happened to a record, by the times of changes, which it is added to."""
    former = times.get(record["id"])
    times[record["id"]] = record["updated_at"]
    if former is None:
        return "created"
    return "unchanged" if former == record["updated_at"] else "updated"


async def _find_companies(client: Client, documents: Sequence[Document]) -> dict[str, int]:
    """Look up the ids of the companies that own definitions, by slug.

    Raises:
        InvalidInput: one does not exist.
    """
    owned = [document for document in documents if APPS.owner(document.content) is not None]
    companies = (await client.list("companies")).values() if owned else ()
    ids = {company["slug"]: company["id"] for company in companies}
    raise_faults(
        [
            document.locate_fault(Fault("/company", "reference", "there is no such company"))
            for document in owned
            if APPS.owner(document.content) not in ids
        ]
    )
    return ids


def print_imported(definition: Imported) -> None:
    """Print the result for one definition."""
    words = [definition.action, definition.record.get("id"), localized(definition.record["name"])]
    words += [definition.record.get("version"), f"from {definition.file}"]
    line = " ".join(str(word) for word in words if word is not None)
    print_line(
        escape_controls(f"{line}: {definition.reason}" if definition.reason else line),
        STYLES[definition.action],
    )


def hint_warnings(imported: Sequence[Imported]) -> None:
    """Print the service's warnings about the imported definitions."""
    taken = [definition.record for definition in imported if definition.action != "refused"]
    print_grouped_hints(
        ("application", str(localized(record["name"])), message)
        for record in taken
        for message in warning_messages(record)
    )


async def import_credential_types(
    client: Client, documents: Sequence[Document], done: Callable[[Imported], None]
) -> None:
    """Import credential types by UUID, or else code, calling `done` with each result."""
    times = {
        record["id"]: record["updated_at"]
        for record in (await client.list("credential_types")).values()
    }
    for document in documents:
        content = document.content.items()
        members = {name: value for name, value in content if name not in NOT_MEMBERS}
        record = await client.post("credential_type", members)
        done(Imported(document.file, _action(times, record), record))
