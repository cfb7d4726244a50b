"""A claim that is being decided, and its refusal."""

from dataclasses import dataclass
from datetime import datetime

from jobauto_prefect.facade.service import Service
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.runtime.protocol import Claim, PrefectState, Refusal, Story


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """One claim being decided, inside its transaction."""

    service: Service
    session: WritingSession
    claim: Claim
    pools: tuple[str, ...]


class Refused(Exception):
    """The run may not start; Prefect shows why. `at`: when it may be tried again."""

    def __init__(
        self, reason: str, message: str, state: PrefectState, at: datetime | None = None
    ) -> None:
        super().__init__(message)
        story = Story(state=state, message=message, at=at)
        self.refusal = Refusal(reason=reason, story=story)
        self.again = at is not None
