"""A claim that is being decided, and its possible ends without a launch."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from jobauto_prefect.errors import Forbidden
from jobauto_prefect.jobs.claims.preflight import NO_PREFLIGHT, Preflight, asks_outside
from jobauto_prefect.jobs.outcome.results import transition_of
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.base import BIGGEST_ID
from jobauto_prefect.ledger.jobs.attempts import ClaimSubject
from jobauto_prefect.ledger.jobs.flow_runs import moved_key, run_key, window_key
from jobauto_prefect.ledger.records import Job, RunTemplate
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.runtime.protocol import Claim, PrefectState, Refusal, RunStatus
from jobauto_prefect.settings import Settings


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """One claim being decided, inside its transaction: the worker's request and identity.

    `pools` are those the worker's token names; `box` opens and seals the ledger's secrets.
    `preflight` is None if nothing outside was asked, as most claims need nothing. `seen_deployment`
    is the flow run's deployment in Prefect; None: Prefect was not asked.
    """

    settings: Settings
    box: SecretBox
    session: WritingSession
    asked: Claim
    pools: tuple[str, ...]
    preflight: Preflight | None = None
    seen_deployment: UUID | None = None

    @property
    def time_until_due(self) -> timedelta:
        """How early the claim came, before its run is due."""
        return time_until_due(self.asked, self.session.clock())

    @property
    def starts_at(self) -> datetime:
        """When the process starts if the claim is granted now."""
        now = self.session.clock()
        return now + time_until_due(self.asked, now)

    @property
    def references(self) -> Mapping[str, Any]:
        """The records that the flow run refers to."""
        named = self.asked.parameters.get("jobauto")
        return named if isinstance(named, dict) else {}

    def reference(self, name: str) -> int | None:
        """Return the number by which the flow run names a record; None if it names none."""
        number = self.references.get(name)
        return number if isinstance(number, int) else None

    @property
    def subject(self) -> ClaimSubject:
        """The jobs the claim may concern."""
        named = self.reference("job")
        if named is not None and not 0 < named <= BIGGEST_ID:
            named = None
        return ClaimSubject(self.asked.claim_id, self.asked.flow_run_id, named)

    def preflight_of(self, template: RunTemplate) -> Preflight:
        """Return the preflight answers for a run template's job.

        Raises:
            NotAsked: there was no preflight, and this template needs one.
        """
        if self.preflight is None and asks_outside(template):
            raise NotAsked
        return self.preflight or NO_PREFLIGHT

    def require_pool(self, template: RunTemplate) -> None:
        """Require that the worker's token is for a run template's work pool.

        Raises:
            Forbidden: it is not.
        """
        pool = template.pool or self.settings.pool
        if pool not in self.pools:
            raise Forbidden(f"this token is not for the work pool {pool}")

    def is_made_for(self, job: Job) -> bool:
        """Whether the flow run is the job's own or replaces it."""
        keys = {
            run_key(job),
            moved_key(job.flow_run_id),
            window_key(job.runtemplate, job.schedule),
        }
        return job.flow_run_id == self.asked.flow_run_id or self.asked.idempotency_key in keys


def time_until_due(claim: Claim, now: datetime) -> timedelta:
    """Return how early a claim came; zero if it names no due time."""
    return max(timedelta(0), claim.due - now) if claim.due else timedelta(0)


class NotDue(Exception):
    """A claim that came early gets no launch yet; its changes must be rolled back."""


class NotAsked(Exception):
    """A claim needs a preflight outside the transaction; its changes must be rolled back.

    See `run_preflight`.
    """


class RunUnseen(Exception):
    """Prefect must be asked for a run's deployment before the transaction starts again."""


class UnknownRun(Exception):
    """An announced run can't be claimed by the announcement alone; `unheard`: it has no job yet."""

    def __init__(self, *, unheard: bool = False) -> None:
        self.unheard = unheard
        super().__init__()


class Refused(Exception):
    """The run may not start; Prefect shows why. `at`: when it may be tried again."""

    def __init__(
        self, reason: str, message: str, state: PrefectState, at: datetime | None = None
    ) -> None:
        super().__init__(message)
        self.reason, self.state, self.at = reason, state, at

    def answer(self, claim_id: UUID) -> Refusal:
        """Return the answer to a claim's worker."""
        waits = self.state is PrefectState.SCHEDULED
        run_status = RunStatus(
            state=self.state,
            message=str(self),
            at=self.at,
            # The id of the job's end, if the refusal ends the job: Prefect learns of it both ways.
            transition_id=None if waits else transition_of(claim_id, self.state),
        )
        return Refusal(reason=self.reason, run_status=run_status)
