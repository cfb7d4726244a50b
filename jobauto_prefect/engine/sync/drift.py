"""Changes and deletions in Prefect of the objects of our records, and their correction.

Applications, run templates, event rules, credentials and their types each have a `Comparison` of
what Prefect should hold for a record with what it holds. Correction is the same for all. So is
detection, except for run templates, which have more than one object each.
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
"""Field -> (what Prefect has, what it should have); (None, None) if these may be secrets."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Record = TypeVar("Record", bound=Any)
Plan = TypeVar("Plan", bound=_Named)


@dataclass(frozen=True, slots=True)
class Drift(Generic[Plan]):
    """What differs for one record.

    `plan` is what it was compared with, `found` the object in Prefect with the id stored in the
    ledger; None: it is gone.
    """

    record_id: int
    object_id: UUID | None
    plan: Plan
    found: PrefectObject | None
    differences: Differences


@dataclass(frozen=True, slots=True)
class Correction:
    """The fields of one object changed in Prefect that the record took over or that were restored.

    `kind` and `id` are those of the record, as REST names them; `name` is the object's.
    """

    kind: str
    id: int
    name: str
    taken_over: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()


class Comparison(ABC, Generic[Record, Plan]):
    """Compares the records of one kind with their objects in Prefect, and corrects the objects."""

    record: ClassVar[type[Any]]
    entity: ClassVar[str]
    """The kind's name in the audit trail; `kind` is its name in REST."""

    kind: ClassVar[str]
    message: ClassVar[OutboxKind]
    """The message that applies the object again."""

    pages_at_once: ClassVar[int | None] = 5
    """How many pages the drift monitor compares per pass; None: all."""

    def __init__(self, context: EngineContext) -> None:
        self.context = context

    @abstractmethod
    async def find(
        self, after_id: int = 0, among: Collection[int] | None = None
    ) -> tuple[list[Drift[Plan]], int]:
        """Find what differs on a page of records above an id.

        Records that wait to be applied are skipped: Prefect gets them anyway.

        Args:
            after_id: the last record of the page before.
            among: the records to compare; None: all.

        Returns:
            The differences, and the id of the page's last record, 0 if no page follows.

        Raises:
            PrefectUnavailable: Prefect does not answer.
        """

    @abstractmethod
    def desired(self, session: ReadingSession, record: Record) -> Plan:
        """Compute what Prefect should hold for a record."""

    def company_of(self, record: Record) -> int | None:
        """Return the id of the record's company; None if it belongs to none."""
        company_id: int | None = record.company_id
        return company_id

    def object_id(self, record: Record) -> UUID | None:
        """Return the id of the record's object in Prefect; None if it has none yet."""
        object_id: UUID | None = getattr(record, PREFECT_OBJECTS[self.record].column)
        return object_id

    async def correct(
        self, after_id: int = 0, among: Collection[int] | None = None
    ) -> tuple[list[Correction], int]:
        """Correct what differs on a page of records; arguments and second result as for `find`.

        Differences are checked twice, because the record may have changed just now.

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
            None if the record was written or applied since the comparison.
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
        """Audit what is restored; the caller enqueues the object to be applied."""
        restored = tuple(drift.differences)
        self.audit_restored(session, record, restored)
        return Correction(self.kind, record.id, drift.plan.name, restored=restored)

    def audit_restored(
        self, session: WritingSession, record: Record, fields: Sequence[str]
    ) -> None:
        """Audit which fields were changed in Prefect and are restored."""
        if fields:
            changes = {"differed in Prefect, restored": [", ".join(fields), None]}
            company = self.company_of(record)
            write_entry(session, self.entity, "update", changes, record.id, company)


class ObjectComparison(Comparison[Record, Plan]):
    """Compares records that have exactly one object each."""

    collection: ClassVar[str]
    """The collection of the objects in Prefect's API."""

    @staticmethod
    @abstractmethod
    def applied(
        session: ReadingSession, after_id: int, limit: int, among: Collection[int] | None
    ) -> Sequence[Any]:
        """Read a page of records above an id that have an object and don't wait to be applied."""

    @abstractmethod
    def differences(self, plan: Plan, found: PrefectObject | None) -> Differences:
        """Return the differences between an object and its plan; None if the object is gone."""

    async def find(
        self, after_id: int = 0, among: Collection[int] | None = None
    ) -> tuple[list[Drift[Plan]], int]:
        """Find what differs on a page of records above an id."""
        page, planned = await self.context.read(self._read_plans, after_id, among)
        present, unreadable = await self.read_present(list(planned.values()))
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
        """Return the page's ids, and id -> (object, plan) for those that can be compared."""
        records = self.applied(session, after_id, PAGE_SIZE, among)
        planned = {}
        for record in records:
            with apart(f"{self.kind} {record.id}"):
                planned[record.id] = self.object_id(record), self.desired(session, record)
        return [record.id for record in records], planned

    async def read_present(
        self, planned: Collection[tuple[UUID | None, Plan]]
    ) -> tuple[Mapping[UUID | None, PrefectObject], Collection[UUID | None]]:
        """Read the objects with these ids; missing ones are omitted.

        The second result has the ids of those that Prefect can't read.
        """
        ids = [str(object_id) for object_id, _ in planned]
        objects, unreadable = await self.context.prefect.find(self.collection, ids)
        return {UUID(found["id"]): found for found in objects}, {*map(UUID, unreadable)}


def last_of(page: Sequence[int]) -> int:
    """Return the id of the last record of a page of ids, or 0 if no page follows."""
    return page[-1] if len(page) == PAGE_SIZE else 0
