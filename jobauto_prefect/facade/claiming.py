"""A claim that is being decided, and its refusal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobauto_prefect.facade.service import Service
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.runtime.protocol import Claim, PrefectState, Refusal, Story


@dataclass(frozen=True, slots=True)
class Outside:
    """What was asked outside of the ledger before a claim is decided.

    `blocks` is the data of Prefect's blocks by name (type slug/name), secrets included.
    `missing` says why there will be no launch, `held_up` why it has to wait and `again` until
    when; None: nothing is in its way.
    """

    blocks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    missing: str | None = None
    held_up: str | None = None
    again: datetime | None = None


NOTHING_OUTSIDE = Outside()


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """One claim being decided, inside its transaction."""

    service: Service
    session: WritingSession
    claim: Claim
    pools: tuple[str, ...]
    outside: Outside = NOTHING_OUTSIDE


class Refused(Exception):
    """The run may not start; Prefect shows why. `at`: when it may be tried again."""

    def __init__(
        self, reason: str, message: str, state: PrefectState, at: datetime | None = None
    ) -> None:
        super().__init__(message)
        story = Story(state=state, message=message, at=at)
        self.refusal = Refusal(reason=reason, story=story)
        self.again = at is not None
