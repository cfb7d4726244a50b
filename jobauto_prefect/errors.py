"""The errors of this project, drawn as a tree.

    JobautoError
    ├── InvalidInput           bad input; carries every error with its place
    │   ├── InvalidDefinition  an application definition that breaks the format
    │   ├── KeyReused          an idempotency key used before for another request
    │   └── OtherId            a body for another record than the path
    ├── NotFound               no such record, or hidden from this person
    ├── Conflict               the record's state forbids it
    │   ├── KeyTaken           another record with the same key came first
    │   ├── NumberTaken        a claim for a run that another job holds
    │   ├── ClaimOver          a repeated claim whose job no longer runs under it
    │   ├── InProgress         the first request of an idempotency key is in progress
    │   ├── StalePlan          an outdated plan of files; carries the current one
    │   ├── Locked             another process holds the lock
    │   └── PrefectRefuses     Prefect considers the request invalid, now and later
    ├── RecordExists           a record to be created already exists
    ├── NotAcceptable          only unsupported formats; carries the supported ones
    ├── Unauthorized           no credentials, or bad ones
    ├── Forbidden              known, but not allowed
    ├── TooManyRequests        too many failed sign-ins or requests; carries when to try again
    ├── Unavailable            a service does not answer; a later retry may work
    │   ├── Contended          somebody else is changing the same record; try again
    │   ├── LedgerUnavailable
    │   ├── PrefectUnavailable
    │   ├── FacadeUnavailable
    │   └── SourceUnavailable  an adapter database that can't be used
    ├── PrefectFailed          Prefect fails on this request, and answers others
    ├── NotReady               this installation lacks something; the message names the command
    │   └── KeyMissing         the key of the secret values is missing
    ├── BackupDamaged          a file is no backup, is truncated, or was altered
    ├── AuditDamaged           the audit trail differs from what was sealed
    └── StartFailed            a job's process could not be started

Every message says what is wrong and what to do next. HTTP statuses and exit codes are derived from
these errors in one place each: `facade/http/errors.py` and `cli/__init__.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jobauto_prefect.wording import pluralize


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of an input.

    `pointer` is a JSON pointer (`""` is the whole document), `rule` the short name of the broken
    rule, `line` and `column` count from 1 and are None if unknown. `file` is the path of the file,
    as it was given; None if the input is not a file.
    """

    pointer: str
    rule: str
    message: str
    line: int | None = None
    column: int | None = None
    file: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fault as JSON; fields without a value are left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}


class JobautoError(Exception):
    """Any refusal or failure of this project; the message is one line for a person."""


class InvalidInput(JobautoError):
    """Bad input, with all faults at once."""

    def __init__(self, faults: Sequence[Fault], message: str | None = None) -> None:
        self.faults = tuple(faults)
        super().__init__(message or self._summary())

    def _summary(self) -> str:
        first = self.faults[0]
        place = first.pointer or "the document"
        more = f" (and {len(self.faults) - 1} more)" if len(self.faults) > 1 else ""
        return f"{place}: {first.message}{more}"


class InvalidDefinition(InvalidInput):
    """An application definition that violates the format (specification 2.1)."""


class KeyReused(InvalidInput):
    """An `Idempotency-Key` that this person has used before, for another request."""


class TooLarge(InvalidInput):
    """A body of more than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__([Fault("", "size", f"the body is larger than {limit} bytes")])


class UnknownEncoding(InvalidInput):
    """A body with an unsupported Content-Encoding."""

    def __init__(self) -> None:
        message = "Content-Encoding may only be gzip; compress the body that way, or not at all"
        super().__init__([Fault("", "encoding", message)])


class OtherId(InvalidInput):
    """The body is for another record than the path; `expected` is the path's id."""

    def __init__(self, expected: int, received: Any) -> None:
        self.expected = expected
        self.received = received
        super().__init__([Fault("/id", "mismatch", f"id must be {expected}, as in the path")])


class NotFound(JobautoError):
    """There is no such record, or this person may not see it."""


class Conflict(JobautoError):
    """The state of the record forbids the request."""


class RecordExists(JobautoError):
    """A record to be created already exists."""


class KeyTaken(Conflict):
    """Another record with the same key was committed first."""


class NumberTaken(Conflict):
    """The run number is taken, or another job of the flow run is live."""


class ClaimOver(Conflict):
    """A repeated claim, whose job no longer runs under it.

    `reason` says why: `ended`, `lost`, or `superseded` by another attempt.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class InProgress(Conflict):
    """The first request with this `Idempotency-Key` is still being processed.

    `retry_after` is in whole seconds.
    """

    retry_after = 1


class StalePlan(Conflict):
    """The plan is outdated; `plan` is the current one, in the form of answers."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.plan = plan
        message = "the records have changed since this was planned, and nothing was changed"
        super().__init__(f"{message}; check the new plan, and send its digest")


class Locked(Conflict):
    """Another process holds the lock; try again in a moment."""


class PrefectRefuses(Conflict):
    """Prefect considers the request invalid (422) and will refuse it again."""


class NotAcceptable(JobautoError):
    """No requested format is supported; `formats` are the supported ones."""

    def __init__(self, message: str, formats: Sequence[str]) -> None:
        self.formats = tuple(formats)
        super().__init__(f"{message}; use {', '.join(self.formats)}")


class Unauthorized(JobautoError):
    """Credentials are missing or invalid."""


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
    """Somebody else is changing the same record; try again."""


class LedgerUnavailable(Unavailable):
    """The ledger's database does not answer."""


class PrefectUnavailable(Unavailable):
    """Prefect's API does not answer."""


class PrefectFailed(JobautoError):
    """Prefect's own code failed on this request but answers others; see its log."""


class FacadeUnavailable(Unavailable):
    """The REST facade does not answer."""


class SourceUnavailable(Unavailable):
    """The adapter database of an event source, or a source of values, can't be used."""


class NotReady(JobautoError):
    """This installation lacks something; the message names the command that creates it."""


class KeyMissing(NotReady):
    """The key that encrypts secret values is missing or unusable."""


class BackupDamaged(JobautoError):
    """A file is no backup of this service, is incomplete, or was altered."""


class AuditDamaged(JobautoError):
    """The audit trail differs from what the services have sealed."""


class StartFailed(JobautoError):
    """A job's process could not be started.

    `exit_code` is what a shell would return (127 not found, 126 not executable); None if nobody
    tried.
    """

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        self.exit_code = exit_code
        super().__init__(message)


class WorkerUnable(StartFailed):
    """The worker can't start any such job at the moment, and this one did not begin.

    `part` is what is missing: "disk", "processes", or the name of an executor.
    """

    def __init__(self, message: str, part: str) -> None:
        self.part = part
        super().__init__(message)
