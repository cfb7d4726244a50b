"""Planning and applying files: what would change, and making it so, all of it or nothing."""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobauto_prefect.errors import Contended, Fault, JobautoError, NotReady, Unavailable
from jobauto_prefect.facade.apply.checking import Checker, refuse
from jobauto_prefect.facade.apply.contents import Contents
from jobauto_prefect.facade.apply.digests import digest_of
from jobauto_prefect.facade.apply.plans import ACTIONS, Change, Fields, Planner
from jobauto_prefect.facade.apply.reading import Read, read_records
from jobauto_prefect.facade.apply.refused import Refused
from jobauto_prefect.facade.apply.trials import Outcome, try_each, write_all
from jobauto_prefect.facade.apply.writer import Writer
from jobauto_prefect.facade.auth import Identity
from jobauto_prefect.facade.service import Service
from jobauto_prefect.ledger import apply_lock

TRIES = 3
"""How often files are applied where somebody else's write crosses it."""

LOCK_SECONDS = 60.0
"""How long the files of others may take."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be applied; `drift` is where Prefect differs, by run template."""

    contents: Contents
    labels: Sequence[str] = ()
    prune: bool = False
    drift: Mapping[int, Fields] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What would change, or has been changed; `forbidden` is what of it who asks may not do.

    `warnings` are kind and title of a record, and what it is warned of.
    """

    changes: Sequence[Change]
    digest: str
    warnings: Sequence[tuple[str, str, Fault]] = ()
    forbidden: Sequence[Fault] = ()
    applied: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For answers."""
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


class Stale(Exception):
    """The plan is another one than that of the digest."""


class _TakenBack(Exception):
    """Nothing of a transaction is to stay."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """The changes that valid records make, every fault, and the records that are refused."""

    read: Read
    changes: Sequence[Change]
    faults: Sequence[Fault]
    refused: Refused

    @property
    def digest(self) -> str:
        return digest_of(self.changes, self.read.known, self.read.definitions)


class Applying:
    """What somebody wants to be applied."""

    def __init__(self, service: Service, who: Identity, wanted: Wanted) -> None:
        self._service = service
        self._who = who
        self._wanted = wanted

    def plan(self, read: Read | None = None) -> Plan:
        """What would change. It is written on trial, and taken back.

        `read` are the records there are; None: they have not been read yet.

        Raises:
            InvalidInput: with every fault of all files.
        """
        judged = self._judged(read or self._read())
        tried = self._tried(judged)
        if judged.faults or tried.faults:
            self._refuse(judged, tried)
        return Plan(judged.changes, judged.digest, tried.warnings, tried.forbidden)

    def apply(self, digest: str) -> Plan:
        """Carry out the plan of that digest, in one transaction under the lock of the ledger.

        Raises:
            InvalidInput: with every fault, and what who asks may not do.
            Stale: the plan is another one by now.
            Unavailable: others apply files, or other writes crossed it again and again.
        """
        for _ in range(TRIES - 1):
            with contextlib.suppress(Contended):
                return self._apply(digest)
        return self._apply(digest)

    def _apply(self, digest: str) -> Plan:
        judged: _Judged | None = None
        try:
            with self._service.ledger.writing(self._who.actor) as session:
                apply_lock.hold(session, LOCK_SECONDS)
                judged = self._judged(self._read())
                if not judged.faults:
                    _require(judged, digest)
                    writer = Writer(self._service, self._who, session, judged.read.known)
                    outcome = write_all(session, writer, judged.changes)
        except (Unavailable, NotReady):
            raise
        except JobautoError:
            if judged is None:
                raise
            self._refuse(judged, self._tried(judged))
            raise  # nothing is wrong any more with what was refused
        if judged.faults:
            self._refuse(judged, self._tried(judged))
        self._service.carrier.wake()
        return Plan(judged.changes, digest, outcome.warnings, applied=True)

    def _read(self) -> Read:
        return read_records(self._service.ledger, self._service.settings, self._who)

    def _judged(self, read: Read) -> _Judged:
        contents = self._wanted.contents
        faults, refused = list(contents.faults), contents.refused()
        documents = []
        checker = Checker(read.known, contents.documents, (), refused)
        for document, found, waits in checker.judged():
            faults += map(document.placed, found)
            if found or waits:
                refused.add(document)
            else:
                documents.append(document)
        wanted = self._wanted
        planner = Planner(
            read.known,
            documents,
            definitions=read.definitions,
            labels=wanted.labels,
            drift=wanted.drift,
        )
        changes = planner.changes()
        if wanted.prune and not faults:
            changes += planner.deletions()
        return _Judged(read, changes, faults, refused)

    def _tried(self, judged: _Judged) -> Outcome:
        """What would come of writing: every fault of it, and what who asks may not do."""
        if all(change.action == "unchanged" for change in judged.changes):
            return Outcome()
        with contextlib.suppress(JobautoError):  # one is enough to look for all
            return self._rehearsed(judged, each_alone=False)
        return self._rehearsed(judged, each_alone=True)

    def _rehearsed(self, judged: _Judged, *, each_alone: bool) -> Outcome:
        outcome = Outcome()
        with (
            contextlib.suppress(_TakenBack),
            self._service.ledger.writing(self._who.actor) as session,
        ):
            apply_lock.hold(session, LOCK_SECONDS)
            writer = Writer(self._service, self._who, session, judged.read.known)
            if each_alone:
                outcome = try_each(session, writer, judged.changes, judged.refused)
            else:
                outcome = write_all(session, writer, judged.changes)
            raise _TakenBack
        return outcome

    def _refuse(self, judged: _Judged, tried: Outcome) -> None:
        """Raise `InvalidInput` where there are faults: as the files come, and in them by line."""
        files = {name: place for place, name in enumerate(self._wanted.contents.names)}
        faults = dict.fromkeys([*judged.faults, *tried.faults, *tried.forbidden])
        ordered = sorted(
            faults, key=lambda one: (files.get(one.file or "", len(files)), one.line or 0)
        )
        refuse(ordered)


def _require(judged: _Judged, digest: str) -> None:
    """The records are as they were when that digest was made.

    Raises:
        Stale: they are not.
    """
    if judged.digest != digest:
        raise Stale
