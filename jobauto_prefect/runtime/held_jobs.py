"""The claims and jobs a worker holds, as its renewals list them."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from uuid import UUID

from jobauto_prefect.runtime.protocol import Launch, Renewal


class HeldJobs:
    """The claims and jobs of one start of a worker.

    A job is held from its grant until its report is accepted. Whatever the facade granted is
    named by each renewal, first by its claim, then by its job: what is not named has no process.
    """

    def __init__(self, worker: str, instance: UUID) -> None:
        self.worker = worker
        self.instance = instance
        self._claims: set[UUID] = set()
        self._jobs: dict[int, UUID] = {}
        self._left: dict[int, UUID] = {}
        self._stops: dict[int, str] = {}
        self._number = self._answered = 0

    @contextlib.contextmanager
    def claiming(self, claim_id: UUID) -> Iterator[None]:
        """Hold a claim while it waits for its answer; call `hold` for a granted job within."""
        self._claims.add(claim_id)
        try:
            yield
        finally:
            self._claims.discard(claim_id)

    def hold(self, launch: Launch) -> None:
        """Hold a job that was granted."""
        self._jobs[launch.job_id] = launch.claim_id

    def release(self, job_id: int) -> None:
        """Release a job that has ended and was reported."""
        self._jobs.pop(job_id, None)
        self._stops.pop(job_id, None)

    def leave_to_successor(self, job_id: int) -> None:
        """Leave a job whose outcome this worker can't report to a later start."""
        if job_id in self._jobs:
            self._left[job_id] = self._jobs[job_id]
        self.release(job_id)

    def stop(self, job_id: int, why: str) -> None:
        """Mark a job to end before it starts; see `reason_to_stop`."""
        if job_id in self._jobs:
            self._stops.setdefault(job_id, why)

    def reason_to_stop(self, job_id: int) -> str | None:
        """Return why a job must not start; None if it may."""
        return self._stops.get(job_id)

    def next_renewal(
        self,
        *,
        settled: Collection[int] = (),
        unreachable: Collection[int] = (),
        hindrances: Mapping[str, str] | None = None,
        clock_ahead: float = 0.0,
    ) -> Renewal:
        """Build the next renewal; `settled` jobs are released, `unreachable` ones unknown."""
        self._number += 1
        held = {job: claim for job, claim in self._jobs.items() if job not in settled}
        unknown = {job: claim for job, claim in held.items() if job in unreachable}
        return Renewal(
            worker=self.worker,
            instance=self.instance,
            number=self._number,
            answered=self._answered,
            jobs={job: claim for job, claim in held.items() if job not in unknown},
            claims=sorted(self._claims),
            unknown=unknown | self._left,
            hindrances=dict(hindrances or {}),
            clock_ahead=clock_ahead,
        )

    def answered(self, renewal: Renewal) -> None:
        """Note that a renewal was answered."""
        self._answered = max(self._answered, renewal.number)
