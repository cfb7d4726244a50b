"""The digest of a plan: of what it would do, and of all in the ledger that this depends on."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from jobauto_prefect.definitions.files import record_schema
from jobauto_prefect.facade.apply.kinds import KINDS, Record
from jobauto_prefect.facade.apply.known import Known
from jobauto_prefect.facade.apply.plans import Change


def digest_of(changes: Iterable[Change], known: Known, definitions: Mapping[int, Record]) -> str:
    """The same for the same files over the same records; secrets are not in it.

    `definitions` are those of the known applications, by their ids.
    """
    said = [_change(change, known, definitions) for change in changes]
    text = json.dumps(said, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _change(change: Change, known: Known, definitions: Mapping[int, Record]) -> list[Any]:
    """What is shown of a change, what its document says, the record, and what both refer to.

    What Prefect has is none of the ledger's: it may be told anything the records say at any time.
    """
    if change.action in ("unchanged", "restore"):
        return [change.kind, change.number]
    document = change.document
    said = (document.content, document.labels) if document else None
    referred = sorted(known.referred(change.kind, document.content)) if document else []
    return [
        replace(change, drift={}).as_dict(),
        said,
        _record(change, known, definitions),
        referred,
    ]


def _record(
    change: Change, known: Known, definitions: Mapping[int, Record]
) -> Mapping[str, Any] | None:
    """What files can say of the record there is; None: there is none."""
    if change.number is None:
        return None
    record = known.records[change.kind][change.number]
    names = {"company", "labels", "topics"}
    if change.kind == "app":
        return {"definition": definitions[change.number], **_chosen(record, names)}
    numbers = {one.member for one in KINDS[change.kind].references.values()}
    return _chosen(record, names | numbers | set(record_schema(change.kind)["properties"]))


def _chosen(record: Record, names: set[str]) -> dict[str, Any]:
    return {name: record[name] for name in names if name in record}
