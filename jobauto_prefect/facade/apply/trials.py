"""Writing the changes of a plan, and finding out what of them is refused."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from jobauto_prefect.errors import Fault, Forbidden, JobautoError, NotReady, Unavailable
from jobauto_prefect.facade.apply.kinds import NOUNS
from jobauto_prefect.facade.apply.plans import Change
from jobauto_prefect.facade.apply.refused import Refused
from jobauto_prefect.facade.apply.writer import Writer
from jobauto_prefect.ledger import apply_lock
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.store import database_errors


@dataclass(slots=True)
class Outcome:
    """What came of writing: warnings with kind and title of a record, what is wrong, and what who
    asks may not do.
    """

    warnings: list[tuple[str, str, Fault]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    forbidden: list[Fault] = field(default_factory=list)


def write_all(session: WritingSession, writer: Writer, changes: Sequence[Change]) -> Outcome:
    """Write in the order of a plan.

    Raises:
        JobautoError: the first that is refused.
    """
    outcome = Outcome()
    _lock(session, changes)
    for change in changes:
        _write(writer, change, outcome)
    writer.finish()
    return outcome


def try_each(
    session: WritingSession, writer: Writer, changes: Sequence[Change], refused: Refused
) -> Outcome:
    """The same, but what is refused keeps no other from being tried, unless that refers to it."""
    outcome = Outcome()
    _lock(session, changes)
    for change in changes:
        if change.document is not None and refused.is_needed_by(change.document):
            refused.add(change.document)
        else:
            _try(session, writer, change, refused, outcome)
    return outcome


def _lock(session: WritingSession, changes: Sequence[Change]) -> None:
    def numbers(kind: str) -> list[int]:
        changed = (each for each in changes if each.action != "unchanged" and each.kind == kind)
        return [each.number for each in changed if each.number is not None]

    apply_lock.lock_templates(session, numbers("runtemplate"), numbers("company"))


def _write(writer: Writer, change: Change, outcome: Outcome) -> None:
    if change.action != "unchanged":
        warnings = writer.write(change)
        outcome.warnings += [(change.kind, change.title, one) for one in warnings]


def _try(
    session: WritingSession, writer: Writer, change: Change, refused: Refused, outcome: Outcome
) -> None:
    try:
        with database_errors(), session.begin_nested():
            _write(writer, change, outcome)
    except (Unavailable, NotReady):
        raise
    except JobautoError as error:
        into = outcome.forbidden if isinstance(error, Forbidden) else outcome.faults
        into += _faults_of(error, change)
        if change.document is not None:
            refused.add(change.document)


def _faults_of(error: JobautoError, change: Change) -> Iterator[Fault]:
    """What a refusal says, with its place in the file; without a file, of which record."""
    rule = "forbidden" if isinstance(error, Forbidden) else "refused"
    found: Sequence[Fault] = getattr(error, "faults", ()) or [Fault("", rule, str(error))]
    for fault in found:
        if change.document is not None:
            yield change.document.placed(replace(fault, line=None, column=None))
        else:
            named = f"{NOUNS[change.kind]} {change.title}: {fault.message}"
            yield replace(fault, message=named, line=None, column=None)
