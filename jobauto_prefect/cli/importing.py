"""Taking definitions from files into the service."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobauto_prefect.cli.checking import refuse
from jobauto_prefect.cli.client import Client
from jobauto_prefect.cli.documents import Document, files_of, judge, read
from jobauto_prefect.cli.kinds import localized
from jobauto_prefect.cli.show import hint_warnings, printable, say
from jobauto_prefect.errors import Conflict, Fault

STYLES = {"created": "green", "updated": "yellow", "unchanged": "dim", "refused": "red"}


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of one definition: `created`, `updated`, `unchanged` or `refused`."""

    file: str
    action: str
    record: Mapping[str, Any]
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        named = {name: self.record.get(name) for name in ("id", "name", "version", "uuid")}
        reason = {"reason": self.reason} if self.reason else {}
        return {"file": self.file, "action": self.action, **named, **reason}


def documents_in(
    paths: Sequence[Path], kind: str, said: Collection[str | None]
) -> tuple[list[Document], list[Fault]]:
    """The records of one kind in the files, all valid, and the warnings about them.

    `said` are the kinds that files found in folders may say they are, None where they say nothing;
    the others are left out.

    Raises:
        InvalidInput: with the faults of all files.
    """
    documents: list[Document] = []
    faults: list[Fault] = []
    warnings: list[Fault] = []
    for path in files_of(paths):
        found, unread = read(path)
        faults += unread
        for document in found:
            if path in paths or document.kind in said:
                judged = judge(document, kind)
                faults += judged.faults
                warnings += judged.warnings
                documents.append(document)
    refuse(list(dict.fromkeys(faults)))
    return documents, warnings


async def take_in(
    client: Client, documents: Sequence[Document], force: bool, done: Callable[[Imported], None]
) -> None:
    """Import one after the other, each told to `done`; one that is refused stops no other."""
    times = {app["id"]: app["updated_at"] for app in (await client.list("apps")).values()}
    for document in documents:
        text = json.dumps(document.content, ensure_ascii=False, indent=2).encode()
        query = {"force": "true"} if force else {}
        try:
            record = await client.post_raw("app", document.raw or text, **query)
        except Conflict as error:
            done(Imported(document.file, "refused", document.content, f"{error} (--force)"))
            continue
        former = times.get(record["id"])
        times[record["id"]] = record["updated_at"]
        hint_warnings(str(localized(record["name"])), record)
        changed = "created" if former is None else "updated"
        action = "unchanged" if former == record["updated_at"] else changed
        done(Imported(document.file, action, record))


def tell(one: Imported) -> None:
    """Print what became of one."""
    words = [one.action, one.record.get("id"), localized(one.record["name"])]
    words += [one.record.get("version"), f"from {one.file}"]
    line = " ".join(str(word) for word in words if word is not None)
    say(printable(f"{line}: {one.reason}" if one.reason else line), STYLES[one.action])
