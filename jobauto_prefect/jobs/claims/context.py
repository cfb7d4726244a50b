"""A claim that is being decided, and its refusal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobauto_prefect.jobs.outcome.event_values import EventValues
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.runtime.protocol import Claim, PrefectState, Refusal, RunStatus
from jobauto_prefect.settings import Settings


@dataclass(frozen=True, slots=True)
class Preflight:
    """Answers from outside the ledger, asked for before a claim is decided.

    `blocks` is the data of Prefect's blocks by name (type slug/name), secrets included. `values`
    are those that credentials name instead of holding, by the id of the credential.
    `missing` says why there will be no launch, `held_up` why it has to wait and `again` until
    when; None: nothing is in its way. `event_values` are those of the job's event, or why there
    are none, if they had to be found before the transaction.
    """

    blocks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    values: Mapping[int, Mapping[str, str]] = field(default_factory=dict, repr=False)
    missing: str | None = None
    held_up: str | None = None
    again: datetime | None = None
    event_values: EventValues | Exception | None = field(default=None, repr=False)


NO_PREFLIGHT = Preflight()


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """One claim being decided, inside its transaction.

    `pools` are those the worker's token names; `box` opens and seals the ledger's secrets.
    """

    settings: Settings
    box: SecretBox
    session: WritingSession
    claim: Claim
    pools: tuple[str, ...]
    preflight: Preflight = NO_PREFLIGHT


class NotDue(Exception):
    """A claim that came ahead is granted no launch yet; what it changed is to be rolled back."""


class UnknownRun(Exception):
    """An announced run can't be claimed by that alone; `unheard`: it is no job's yet."""

    def __init__(self, *, unheard: bool = False) -> None:
        self.unheard = unheard
        super().__init__()


class Refused(Exception):
    """The run may not start; Prefect shows why. `at`: when it may be tried again."""

    def __init__(
        self, reason: str, message: str, state: PrefectState, at: datetime | None = None
    ) -> None:
        super().__init__(message)
        story = RunStatus(state=state, message=message, at=at)
        self.refusal = Refusal(reason=reason, story=story)
        self.again = at is not None
