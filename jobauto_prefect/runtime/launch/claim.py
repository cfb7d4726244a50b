"""A worker's claim, repeated until it is answered, and again if its launch grew old."""

from uuid import UUID

from jobauto_prefect.clock import seconds_since_boot
from jobauto_prefect.errors import Conflict
from jobauto_prefect.retries import retry_until_available
from jobauto_prefect.runtime.facade_client import FacadeClient
from jobauto_prefect.runtime.protocol import Claim, ClaimAnswer, Launch

FRESH_LEASES = 0.5
"""A launch of this age, in leases, is asked for again before its process starts."""


class LaunchClaim:
    """One claim; prevents a frozen worker from starting what a successor runs by now."""

    def __init__(self, client: FacadeClient, claim: Claim) -> None:
        self._client = client
        self._claim = claim
        self._asked_at = float("-inf")

    @property
    def claim_id(self) -> UUID:
        """The id that renewals list until the claim is answered."""
        return self._claim.claim_id

    async def ask(self) -> ClaimAnswer:
        """Return the facade's answer, waiting while it is away; a lost answer is asked for again.

        Raises:
            Conflict: leave the run untouched.
        """
        return await retry_until_available(self._ask_once)

    async def confirm(self, launch: Launch) -> None:
        """Confirm that the launch is still this worker's, by an answer younger than half a lease.

        Raises:
            Conflict: the job has ended, was lost, or another attempt has taken its place.
        """
        while seconds_since_boot() - self._asked_at > FRESH_LEASES * launch.lease_seconds:
            answer = await self.ask()
            if answer.launch is None or answer.launch.job_id != launch.job_id:
                raise Conflict(f"the facade does not let job {launch.job_id} start any more")

    async def _ask_once(self) -> ClaimAnswer:
        asked_at = seconds_since_boot()
        answer = await self._client.claim(self._claim)
        self._asked_at = asked_at
        return answer
