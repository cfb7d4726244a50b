"""Taking definitions from files into the service."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobauto_prefect.cli.client import Client
from jobauto_prefect.cli.files import files_of, read
from jobauto_prefect.cli.show import hint_in_common, printable, say, warnings_in
from jobauto_prefect.errors import Conflict, Fault
from jobauto_prefect.facade.apply.checking import refuse
from jobauto_prefect.facade.apply.documents import Document, judge
from jobauto_prefect.facade.apply.kinds import definition_in, localized, owner_in, says_owner

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
    companies = await _companies(client, documents)
    for document in documents:
        text = json.dumps(definition_in(document.content), ensure_ascii=False, indent=2).encode()
        query: dict[str, Any] = {"force": "true"} if force else {}
        owner = owner_in("app", document.content)
        if owner is not None:
            query["company_id"] = companies[owner]
        raw = None if says_owner("app", document.content) else document.raw
        try:
            record = await client.post_definition(raw or text, **query)
        except Conflict as error:
            reason = f"{error} (--force)" if "force" in str(error) else str(error)
            done(Imported(document.file, "refused", document.content, reason))
            continue
        former = times.get(record["id"])
        times[record["id"]] = record["updated_at"]
        changed = "created" if former is None else "updated"
        action = "unchanged" if former == record["updated_at"] else changed
        done(Imported(document.file, action, record))


async def _companies(client: Client, documents: Sequence[Document]) -> dict[str, int]:
    """The ids of the companies that definitions say they belong to, by slug.

    Raises:
        InvalidInput: one is not there.
    """
    owned = [each for each in documents if owner_in("app", each.content) is not None]
    known = (await client.list("companies")).values() if owned else ()
    found = {company["slug"]: company["id"] for company in known}
    refuse(
        [
            each.placed(Fault("/company", "reference", "there is no such company"))
            for each in owned
            if owner_in("app", each.content) not in found
        ]
    )
    return found


def tell(one: Imported) -> None:
    """Print what became of one."""
    words = [one.action, one.record.get("id"), localized(one.record["name"])]
    words += [one.record.get("version"), f"from {one.file}"]
    line = " ".join(str(word) for word in words if word is not None)
    say(printable(f"{line}: {one.reason}" if one.reason else line), STYLES[one.action])


def hint_warnings(imported: Sequence[Imported]) -> None:
    """What the service warns of in those it has taken."""
    taken = [one.record for one in imported if one.action != "refused"]
    hint_in_common(
        ("application", str(localized(record["name"])), message)
        for record in taken
        for message in warnings_in(record)
    )
