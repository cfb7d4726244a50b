"""What somebody changed or deleted in Prefect of the objects of our records, and its correction.

Applications, run templates, event rules, credentials and their types each have a `Comparison`: what
Prefect should hold of a record, and what it holds. How it is corrected is the same for all. How it
is found is, too, but for run templates, which have more than one object each.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from uuid import UUID

from jobauto_prefect.engine.api import PAGE_SIZE
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.sync.deployment_comparison import PrefectObject
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.ledger.audit.trail import WritingSession, write_entry
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue, is_pending
from jobauto_prefect.ledger.prefect_objects import PREFECT_OBJECTS
from jobauto_prefect.ledger.store import ReadingSession

Differences = Mapping[str, tuple[Any, Any]]
"""Field -> what Prefect has, what it should have; (None, None) where that may be a secret."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Record = TypeVar("Record", bound=Any)
Plan = TypeVar("Plan", bound=_Named)


@dataclass(frozen=True, slots=True)
class Drift(Generic[Plan]):
    """What differs for one record: field -> what Prefect has, what it should have.

    `plan` is what it was compared with, `found` the object in Prefect, under the id that the ledger
    remembers; None: it is gone.
    """

    record_id: int
    object_id: UUID | None
    plan: Plan
    found: PrefectObject | None
    differences: Differences


@dataclass(frozen=True, slots=True)
class Correction:
    """What was done about one object that somebody changed in Prefect; the names of its fields.

    `kind` and `id` are those of the record, as REST names them; `name` is the object's.
    """

    kind: str
    id: int
    name: str
    taken_over: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()


class Comparison(ABC, Generic[Record, Plan]):
    """Compares the records of one kind with their objects in Prefect, and corrects these."""

    record: ClassVar[type[Any]]
    entity: ClassVar[str]
    """The kind as the audit trail names it; `kind` is as REST does."""

    kind: ClassVar[str]
    message: ClassVar[OutboxKind]
    """Has the object applied again."""

    pages_at_once: ClassVar[int | None] = 5
    """How many pages one pass of the drift monitor compares; None: all there are."""

    def __init__(self, context: EngineContext) -> None:
        self.context = context

    @abstractmethod
    async def find(
        self, after_id: int = 0, among: Collection[int] | None = None
    ) -> tuple[list[Drift[Plan]], int]:
        """Find what differs on a page of records above an id.

        Records that wait to be applied are left out: Prefect is told of them anyway.

        Args:
            after_id: the last record of the page before.
            among: the records that count; None: all.

        Returns:
            What differs, and the id of the page's last record; 0: it was the last page.

        Raises:
            PrefectUnavailable: Prefect does not answer.
        """

    @abstractmethod
    def desired(self, session: ReadingSession, record: Record) -> Plan:
        """Compute what Prefect should hold of a record."""

    def company_of(self, record: Record) -> int | None:
        """Return the id of the record's company; None: it is none's."""
        company_id: int | None = record.company_id
        return company_id

    def object_id(self, record: Record) -> UUID | None:
        """Return the id of the record's object in Prefect; None: it has none yet."""
        object_id: UUID | None = getattr(record, PREFECT_OBJECTS[self.record].column)
        return object_id

    async def correct(
        self, after_id: int = 0, among: Collection[int] | None = None
    ) -> tuple[list[Correction], int]:
        """Correct what differs on a page of records; arguments and answer are those of `find`.

        What differs is looked at twice: the record may have changed just now.

        Raises:
            PrefectUnavailable: Prefect does not answer.
        """
        suspects, last_id = await self.find(after_id, among)
        if not suspects:
            return [], last_id
        confirmed, _ = await self.find(after_id, {drift.record_id for drift in suspects})
        corrections: list[Correction] = []
        for drift in confirmed:
            with apart(f"{self.kind} {drift.record_id}"):
                correction = await self.context.write(self._correct_one, drift)
                corrections += [] if correction is None else [correction]
        return corrections, last_id

    def _correct_one(self, session: WritingSession, drift: Drift[Plan]) -> Correction | None:
        """Enqueue the object to be applied again.

        Returns:
            None: the record was written or applied since it was compared.
        """
        record = session.get_one(self.record, drift.record_id, with_for_update={"key_share": True})
        if record.retired_at or is_pending(session, self.message, record.id):
            return None
        if (self.object_id(record), self.desired(session, record)) != (drift.object_id, drift.plan):
            return None
        correction = self.settle(session, record, drift)
        enqueue(session, self.message, record.id)
        return correction

    def settle(self, session: WritingSession, record: Record, drift: Drift[Plan]) -> Correction:
        """Audit what comes back; the caller enqueues the object to be applied."""
        restored = tuple(drift.differences)
        self.audit_restored(session, record, restored)
        return Correction(self.kind, record.id, drift.plan.name, restored=restored)

    def audit_restored(
        self, session: WritingSession, record: Record, fields: Sequence[str]
    ) -> None:
        """Write down which fields were changed in Prefect and come back."""
        if fields:
            changes = {"differed in Prefect, restored": [", ".join(fields), None]}
            company = self.company_of(record)
            write_entry(session, self.entity, "update", changes, record.id, company)


class ObjectComparison(Comparison[Record, Plan]):
    """Compares records that have one object each."""

    collection: ClassVar[str]
    """Where Prefect has the objects."""

    @staticmethod
    @abstractmethod
    def applied(
        session: ReadingSession, after_id: int, limit: int, among: Collection[int] | None
    ) -> Sequence[Any]:
        """Read a page of records above an id that have an object and don't wait to be applied."""

    @abstractmethod
    def differences(self, plan: Plan, found: PrefectObject | None) -> Differences:
        """Return what differs between an object and what it should be; None: it is gone."""

    async def find(
        self, after_id: int = 0, among: Collection[int] | None = None
    ) -> tuple[list[Drift[Plan]], int]:
        """Find what differs on a page of records above an id."""
        page, planned = await self.context.read(self._read_plans, after_id, among)
        present, unreadable = await self.read_present(
            [object_id for object_id, _ in planned.values()]
        )
        drifts = []
        for record_id, (object_id, plan) in planned.items():
            if object_id in unreadable:
                continue
            with apart(f"{self.kind} {record_id}"):
                found = present.get(object_id)
                if differing := self.differences(plan, found):
                    drifts.append(Drift(record_id, object_id, plan, found, differing))
        return drifts, last_of(page)

    def _read_plans(
        self, session: ReadingSession, after_id: int, among: Collection[int] | None
    ) -> tuple[list[int], dict[int, tuple[UUID | None, Plan]]]:
        """Return the page's ids, and id -> object and plan of those that can be compared."""
        records = self.applied(session, after_id, PAGE_SIZE, among)
        planned = {}
        for record in records:
            with apart(f"{self.kind} {record.id}"):
                planned[record.id] = self.object_id(record), self.desired(session, record)
        return [record.id for record in records], planned

    async def read_present(
        self, ids: Collection[UUID | None]
    ) -> tuple[Mapping[UUID | None, PrefectObject | None], Collection[UUID | None]]:
        """Read the objects of these ids; those that are gone are left out, or None.

        Returns beside them the ids of those that Prefect can't read.
        """
        objects, unreadable = await self.context.prefect.find(self.collection, map(str, ids))
        return {UUID(found["id"]): found for found in objects}, {*map(UUID, unreadable)}


def last_of(page: Sequence[int]) -> int:
    """Return the id of the last record of a page of ids; 0: no page follows."""
    return page[-1] if len(page) == PAGE_SIZE else 0
