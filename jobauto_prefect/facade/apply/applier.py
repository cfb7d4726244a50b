"""Planning and applying files: all of the changes or none."""

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jobauto_prefect.definitions.validation.record_files import record_schema
from jobauto_prefect.errors import Contended, Fault, JobautoError, NotReady, Unavailable
from jobauto_prefect.facade.apply.contents import Contents
from jobauto_prefect.facade.apply.plans import ACTIONS, Change, Fields, Planner
from jobauto_prefect.facade.apply.record_index import RecordIndex
from jobauto_prefect.facade.apply.record_kinds import APPS, FILES, Record
from jobauto_prefect.facade.apply.refusals import Refusals
from jobauto_prefect.facade.apply.validation import Validator, raise_faults
from jobauto_prefect.facade.apply.visible_records import VisibleRecords, load_visible_records
from jobauto_prefect.facade.apply.writer import Pages, WriteOutcome, Writer, try_each, write_all
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.service import Service
from jobauto_prefect.kinds import FILE_KINDS
from jobauto_prefect.ledger import locks

TRIES = 3
"""How often applying is attempted if concurrent writes interfere."""

LOCK_SECONDS = 60.0
"""How long to wait while others apply files."""


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """What to apply; `drift` is where Prefect differs, by kind and id."""

    contents: Contents
    labels: Sequence[str] = ()
    prune: bool = False
    drift: Mapping[tuple[str, int], Fields] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What would change, or has changed; `forbidden` are the changes that the user may not make.

    `warnings` are kind and title of a record, and the warning.
    """

    changes: Sequence[Change]
    digest: str
    warnings: Sequence[tuple[str, str, Fault]] = ()
    forbidden: Sequence[Fault] = ()
    applied: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as answers show it."""
        counts = Counter(change.action for change in self.changes)
        return {
            "digest": self.digest,
            "applied": self.applied,
            "changes": [change.as_dict() for change in self.changes],
            "counts": {action: counts[action] for action in ACTIONS},
            "warnings": [
                {"kind": kind, "title": title, **fault.as_dict()}
                for kind, title, fault in self.warnings
            ],
            "forbidden": [fault.as_dict() for fault in self.forbidden],
        }


class PlanChanged(Exception):
    """The plan does not match the digest."""


class _RolledBack(Exception):
    """The transaction must be rolled back."""


@dataclass(frozen=True, slots=True)
class _CheckedFiles:
    """The changes that valid records make, every error, and the rejected records."""

    read: VisibleRecords
    changes: Sequence[Change]
    faults: Sequence[Fault]
    refused: Refusals

    @property
    def digest(self) -> str:
        return compute_digest(self.changes, self.read.index, self.read.definitions)

    @property
    def changes_nothing(self) -> bool:
        return all(change.action == "unchanged" for change in self.changes)


class Applier:
    """A request to apply files."""

    def __init__(self, service: Service, who: Identity, wanted: ApplyRequest) -> None:
        self._service = service
        self._who = who
        self._wanted = wanted

    def plan(self, read: VisibleRecords | None = None) -> Plan:
        """Return what would change: the changes are made and rolled back.

        `read` are the existing records; None: read them.

        Raises:
            InvalidInput: with every error of all files.
        """
        judged = self._judged(read or self._read())
        tried = self._tried(judged)
        if judged.faults or tried.faults:
            self._refuse(judged, tried)
        return _plan_of(judged, tried)

    def approve(self, read: VisibleRecords) -> Plan:
        """Carry out the plan, whatever it is, like `apply`, without a trial before.

        If part of it is forbidden, nothing is carried out.

        Raises:
            InvalidInput: with every error.
            Unavailable: others apply files, or other writes kept interfering.
        """
        judged = self._judged(read)
        if judged.faults:
            self._refuse(judged, self._tried(judged))
        if judged.changes_nothing:  # no need to wait for the lock
            return Plan(judged.changes, judged.digest)
        return self.apply(None)

    def apply(self, digest: str | None) -> Plan:
        """Carry out the plan with this digest, in one transaction under the lock of the ledger.

        None: whatever the plan is.

        Raises:
            InvalidInput: with every error, and every change that the user may not make.
            PlanChanged: the plan has changed since.
            Unavailable: others apply files, or other writes kept interfering.
        """
        for _ in range(TRIES - 1):
            with contextlib.suppress(Contended):
                return self._apply(digest)
        return self._apply(digest)

    def _apply(self, digest: str | None) -> Plan:
        judged: _CheckedFiles | None = None
        try:
            with self._service.ledger.writing(self._who.actor) as session:
                locks.acquire_apply_lock(session, LOCK_SECONDS)
                judged = self._judged(self._read())
                if not judged.faults:
                    if digest is not None and judged.digest != digest:
                        raise PlanChanged
                    writer = Writer(self._service, self._who, session, judged.read.index)
                    outcome = write_all(session, writer, judged.changes)
        except (Unavailable, NotReady):
            raise
        except JobautoError:
            if judged is None:
                raise
            tried = self._tried(judged)
            if digest is None and tried.forbidden and not tried.faults:
                return _plan_of(judged, tried)
            self._refuse(judged, tried)
            raise  # what was refused is no longer wrong
        if judged.faults:
            self._refuse(judged, self._tried(judged))
        self._service.outbox_worker.wake()
        return replace(_plan_of(judged, outcome), applied=True)

    def _read(self) -> VisibleRecords:
        return load_visible_records(self._service.ledger, self._service.settings, self._who)

    def _judged(self, read: VisibleRecords) -> _CheckedFiles:
        contents = self._wanted.contents
        faults, refused = list(contents.faults), contents.refused()
        documents = []
        checker = Validator(read.index, contents.documents, (), refused)
        for document, record_faults, waits in checker.check_documents():
            faults += map(document.locate_fault, record_faults)
            if record_faults or waits:
                refused.add(document)
            else:
                documents.append(document)
        wanted = self._wanted
        planner = Planner(
            read.index,
            documents,
            definitions=read.definitions,
            labels=wanted.labels,
            drift=wanted.drift,
        )
        changes = planner.changes()
        if wanted.prune and not faults:
            changes += planner.deletions()
        return _CheckedFiles(read, changes, faults, refused)

    def _tried(self, judged: _CheckedFiles) -> WriteOutcome:
        """Try the changes; return every error, and those that the user may not make.

        Page by page, so that others can write in between.
        """
        outcome = WriteOutcome()
        for page in Pages(judged.changes, judged.read.index):
            try:
                outcome.extend(self._rehearsed(page, judged, each_alone=False))
            except JobautoError:  # there is an error: look for all
                outcome.extend(self._rehearsed(page, judged, each_alone=True))
            locks.let_writers_pass(self._service.ledger.engine)
        return outcome

    def _rehearsed(
        self, page: Sequence[Change], judged: _CheckedFiles, *, each_alone: bool
    ) -> WriteOutcome:
        outcome = WriteOutcome()
        with (
            contextlib.suppress(_RolledBack),
            self._service.ledger.writing(self._who.actor) as session,
        ):
            locks.acquire_apply_lock(session, LOCK_SECONDS)
            writer = Writer(self._service, self._who, session, judged.read.index)
            if each_alone:
                outcome = try_each(session, writer, page, judged.refused)
            else:
                outcome = write_all(session, writer, page)
            raise _RolledBack
        return outcome

    def _refuse(self, judged: _CheckedFiles, tried: WriteOutcome) -> None:
        """Raise `InvalidInput` if there are errors, in the order of files and lines."""
        files = {name: place for place, name in enumerate(self._wanted.contents.names)}
        faults = dict.fromkeys([*judged.faults, *tried.faults, *tried.forbidden])
        ordered = sorted(
            faults, key=lambda fault: (files.get(fault.file or "", len(files)), fault.line or 0)
        )
        raise_faults(ordered)


def _plan_of(judged: _CheckedFiles, outcome: WriteOutcome) -> Plan:
    return Plan(judged.changes, judged.digest, outcome.warnings, outcome.forbidden)


def compute_digest(
    changes: Iterable[Change], index: RecordIndex, definitions: Mapping[int, Record]
) -> str:
    """Return a digest without secrets: the same files over the same records have the same one.

    `definitions` are those of the known applications, by their ids.
    """
    digested = [_change(change, index, definitions) for change in changes]
    text = json.dumps(digested, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _change(change: Change, index: RecordIndex, definitions: Mapping[int, Record]) -> list[Any]:
    """Return what a change shows, its document, its record, and what both refer to.

    What Prefect has does not count: the service may update it from the records at any time.
    """
    if change.action in ("unchanged", "restore"):
        return [change.kind, change.number]
    document = change.document
    content = (document.content, document.labels) if document else None
    referred = sorted(index.references_of(change.kind, document.content)) if document else []
    return [
        replace(change, drift={}).as_dict(),
        content,
        _record(change, index, definitions),
        referred,
    ]


def _record(
    change: Change, index: RecordIndex, definitions: Mapping[int, Record]
) -> Mapping[str, Any] | None:
    """Return the parts of a record that files can contain; None: there is no record."""
    if change.number is None:
        return None
    record = index.records[change.kind][change.number]
    names = {"company", "labels", "topics"}
    if FILES[change.kind] is APPS:
        return {"definition": definitions[change.number], **_chosen(record, names)}
    numbers = {reference.field for reference in FILE_KINDS[change.kind].named_in_files.values()}
    return _chosen(record, names | numbers | set(record_schema(change.kind)["properties"]))


def _chosen(record: Record, names: set[str]) -> dict[str, Any]:
    return {name: record[name] for name in names if name in record}
