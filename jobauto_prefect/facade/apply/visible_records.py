"""The records that a user may see, in the form of files."""

from dataclasses import dataclass
from typing import Any

from jobauto_prefect.facade.apply.record_index import RecordIndex
from jobauto_prefect.facade.apply.record_kinds import FILES, Record
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.kinds.registry import BY_ITEM
from jobauto_prefect.kinds import FILE_KINDS
from jobauto_prefect.ledger.queries import lists
from jobauto_prefect.ledger.queries.lists import Selection
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings


@dataclass(frozen=True, slots=True)
class VisibleRecords:
    """The records, and the definitions of the applications by their ids."""

    index: RecordIndex
    definitions: dict[int, Record]


def load_visible_records(ledger: Ledger, settings: Settings, who: Identity) -> VisibleRecords:
    """Return all records that a user may see, as of one instant.

    It takes one statement per kind, however many records there are.
    """
    listed: dict[str, dict[int, Record]] = {}
    definitions: dict[int, Record] = {}
    with ledger.snapshot() as session:
        for kind in FILE_KINDS:
            resource = BY_ITEM[kind]
            seen = Selection(who.rights.companies_with(resource.kind.read), count=False)
            records: list[Any] = [*lists.page(session, resource.record, seen).records]
            listed[kind] = {record.id: resource.show(record, settings) for record in records}
            definitions |= FILES[kind].definitions(records)
    return VisibleRecords(RecordIndex(listed, settings.extra_env, settings.timezone), definitions)
