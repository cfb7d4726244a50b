"""A worker's claim: repeated until it is answered, and again if its launch gets too old."""

import asyncio
from uuid import UUID

from jobauto_prefect.clock import seconds_since_boot
from jobauto_prefect.errors import Conflict
from jobauto_prefect.retries import retry_until_available
from jobauto_prefect.runtime.facade_client import FacadeClient
from jobauto_prefect.runtime.protocol import Claim, ClaimAnswer, Launch

FRESH_LEASES = 0.5
"""A launch older than this, in leases, is confirmed again before its process starts."""


class LaunchClaim:
    """One claim; prevents a frozen worker from starting a job that a successor already runs."""

    def __init__(self, client: FacadeClient, claim: Claim) -> None:
        self._client = client
        self._claim = claim
        self._asked_at = float("-inf")
        self._due_at = float("-inf")

    @property
    def claim_id(self) -> UUID:
        """The id that renewals list until the claim is answered."""
        return self._claim.claim_id

    async def ask(self) -> ClaimAnswer:
        """Return the facade's answer, waiting while it is away; repeat lost claims.

        If the claim said when the run is due and it is too early to grant it, repeat the claim
        then.

        Raises:
            Conflict: leave the run untouched.
        """
        answer = await retry_until_available(self._ask_once)
        while self._claim.due is not None and answer.launch is None and answer.refusal is None:
            await self.wait_until_due()
            answer = await retry_until_available(self._ask_once)
        return answer

    async def wait_until_due(self) -> None:
        """Return when the process may start.

        That is `wait_seconds` after the last answer, by a monotonic clock.
        """
        await asyncio.sleep(max(0.0, self._due_at - seconds_since_boot()))
        if self._claim.due is not None:
            self._client.clock.note_passed(self._claim.due)

    async def confirm(self, launch: Launch) -> None:
        """Make sure the launch is still this worker's, by an answer younger than half a lease.

        Raises:
            Conflict: the job has ended, was lost, or another attempt has taken its place.
        """
        while seconds_since_boot() - self._asked_at > FRESH_LEASES * launch.lease_seconds:
            answer = await self.ask()
            if answer.launch is None or answer.launch.job_id != launch.job_id:
                raise Conflict(f"the facade does not let job {launch.job_id} start any more")

    def expire(self) -> None:
        """Have `confirm` ask again, however young the answer is."""
        self._asked_at = float("-inf")

    async def _ask_once(self) -> ClaimAnswer:
        asked_at = seconds_since_boot()
        answer = await self._client.claim(self._claim)
        self._asked_at = asked_at
        self._due_at = seconds_since_boot() + answer.wait_seconds
        return answer
