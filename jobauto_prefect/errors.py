"""The errors of this project, drawn as a tree.

    JobautoError
    ├── InvalidInput           bad input; carries every error with its place
    │   ├── InvalidDefinition  an application definition that breaks the format
    │   ├── KeyReused          an idempotency key that came before, with another request
    │   └── OtherId            a body for another record than the path's
    ├── NotFound               a record that is not there, or not for this person
    ├── Conflict               the record's state forbids it
    │   ├── KeyTaken           another record with the same key came first
    │   ├── NumberTaken        a claim for a run that another job holds
    │   ├── ClaimOver          a claim asked again whose job does not run under it any more
    │   ├── InProgress         the first request of an idempotency key is being worked on
    │   ├── StalePlan          of files to apply; carries the plan as it is now
    │   ├── Locked             another process is at it just now
    │   └── PrefectRefuses     what Prefect is told is invalid to it, now and later
    ├── RecordExists           one that was to be new is there already
    ├── NotAcceptable          a format that is not spoken; carries those that are
    ├── Unauthorized           no credentials, or bad ones
    ├── Forbidden              known, but not allowed
    ├── TooManyRequests        too many failed sign-ins or requests; carries when to try again
    ├── Unavailable            a neighbour does not answer; trying again later may work
    │   ├── Contended          somebody else changed the same just now; ask again
    │   ├── LedgerUnavailable
    │   ├── PrefectUnavailable
    │   ├── FacadeUnavailable
    │   └── SourceUnavailable  an adapter database that can't be used
    ├── PrefectFailed          Prefect fails on this request, and answers others
    ├── NotReady               this installation lacks something; the message names the command
    │   └── KeyMissing         the key of the secret values is not there
    ├── BackupDamaged          a file is no backup, is cut off, or was altered
    ├── AuditDamaged           the audit trail is not as it was sealed
    └── StartFailed            a job's process could not be started

Every message says what is wrong and what to do next. Where HTTP statuses and exit codes come
from these errors is said once each: `facade/http/errors.py` and `cli/__init__.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jobauto_prefect.wording import pluralize


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with an input.

    `pointer` is a JSON pointer (`""` is the whole document), `rule` the short name of the rule
    that is broken, `line` and `column` count from 1 and are None where unknown. `file` is the
    path of the file, as it was named; None where the input is none.
    """

    pointer: str
    rule: str
    message: str
    line: int | None = None
    column: int | None = None
    file: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON has it; fields without a value are left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}


class JobautoError(Exception):
    """Anything this project refuses or fails at; the message is one line for a person."""


class InvalidInput(JobautoError):
    """Bad input, with every error at once."""

    def __init__(self, faults: Sequence[Fault], message: str | None = None) -> None:
        self.faults = tuple(faults)
        super().__init__(message or self._summary())

    def _summary(self) -> str:
        first = self.faults[0]
        place = first.pointer or "the document"
        more = f" (and {len(self.faults) - 1} more)" if len(self.faults) > 1 else ""
        return f"{place}: {first.message}{more}"


class InvalidDefinition(InvalidInput):
    """An application definition that breaks the format (specification 2.1)."""


class KeyReused(InvalidInput):
    """An `Idempotency-Key` that this person used before, for another request."""


class TooLarge(InvalidInput):
    """A body of more than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__([Fault("", "size", f"the body is larger than {limit} bytes")])


class UnknownEncoding(InvalidInput):
    """A body whose Content-Encoding is not spoken."""

    def __init__(self) -> None:
        message = "Content-Encoding may be gzip; send the body packed by that, or as it is"
        super().__init__([Fault("", "encoding", message)])


class OtherId(InvalidInput):
    """The body is for another record than the path's; `expected` is the path's id."""

    def __init__(self, expected: int, received: Any) -> None:
        self.expected = expected
        self.received = received
        super().__init__([Fault("/id", "mismatch", f"id must be {expected}, as the path says")])


class NotFound(JobautoError):
    """No such record, or none this person may see."""


class Conflict(JobautoError):
    """The state of the record forbids what was asked."""


class RecordExists(JobautoError):
    """A record that was to be new is there already."""


class KeyTaken(Conflict):
    """Another record with the same key was committed first."""


class NumberTaken(Conflict):
    """The run number is taken, or another job of the flow run is live."""


class ClaimOver(Conflict):
    """A claim was asked again, and its job does not run under it any more.

    `reason` says why: `ended`, `lost`, or `superseded` by another attempt.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class InProgress(Conflict):
    """The first request with this `Idempotency-Key` is being worked on.

    `retry_after` is in whole seconds.
    """

    retry_after = 1


class StalePlan(Conflict):
    """What was planned is not what would be done now; `plan` is, as answers have it."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.plan = plan
        message = "the records have changed since this was planned, and nothing was changed"
        super().__init__(f"{message}; look at the new plan, and send its digest")


class Locked(Conflict):
    """Another process is at it just now; it may be tried again in a moment."""


class PrefectRefuses(Conflict):
    """What Prefect is told is invalid to it (422): the same again is refused again."""


class NotAcceptable(JobautoError):
    """No format that is asked for is spoken; `formats` are those that are."""

    def __init__(self, message: str, formats: Sequence[str]) -> None:
        self.formats = tuple(formats)
        super().__init__(f"{message}; use {', '.join(self.formats)}")


class Unauthorized(JobautoError):
    """No credentials, or credentials that are not valid."""


class Forbidden(JobautoError):
    """The person or worker is known and may not do this."""


class TooManyRequests(JobautoError):
    """Too many failed sign-ins, or requests at once; `retry_after` is in whole seconds."""

    def __init__(self, retry_after: int, message: str | None = None) -> None:
        self.retry_after = retry_after
        wait = pluralize(retry_after, "second")
        failed = f"too many failed sign-ins; try again in {wait}, or use a token"
        super().__init__(message or failed)


class Unavailable(JobautoError):
    """A neighbouring service does not answer."""


class Contended(Unavailable):
    """Somebody else changed the same record just now; asked again, it is decided."""


class LedgerUnavailable(Unavailable):
    """The ledger's database does not answer."""


class PrefectUnavailable(Unavailable):
    """Prefect's API does not answer."""


class PrefectFailed(JobautoError):
    """Prefect's own code failed on this request, and it answers others; its log says how."""


class FacadeUnavailable(Unavailable):
    """The REST facade does not answer."""


class SourceUnavailable(Unavailable):
    """The adapter database of an event source, or a source of values, can't be used."""


class NotReady(JobautoError):
    """This installation lacks something; the message names the command that makes it."""


class KeyMissing(NotReady):
    """The key that encrypts secret values is not there or can't be used."""


class BackupDamaged(JobautoError):
    """A file is no backup of this service, is not whole, or is not as it was written."""


class AuditDamaged(JobautoError):
    """The audit trail is not as the services have sealed it."""


class StartFailed(JobautoError):
    """A job's process could not be started.

    `exit_code` is what a shell would return (127 not found, 126 not executable); None where
    nobody tried.
    """

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        self.exit_code = exit_code
        super().__init__(message)


class WorkerUnable(StartFailed):
    """The worker can't start any such job just now, and nothing of this one began.

    `part` is what is missing: "disk", "processes", or the name of an executor.
    """

    def __init__(self, message: str, part: str) -> None:
        self.part = part
        super().__init__(message)
