"""Dependencies shared by code that syncs the ledger with Prefect."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, TypeVar

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.batches import Batches
from jobauto_prefect.engine.hand_overs import HandOvers
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.store import Ledger, ReadingSession
from jobauto_prefect.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

CREATIONS_AT_ONCE = 4
"""Concurrent calls that create flow runs, one for each deployment. More would not keep Prefect any
busier, but leave fewer runs of the same deployment for one call, which is half as expensive."""


@dataclass(frozen=True, slots=True)
class EngineContext:
    """Ledger, Prefect, the settings of both, and what waits to be batched: calls, transactions."""

    ledger: Ledger
    prefect: PrefectApi
    settings: Settings
    creations: Batches = field(default_factory=lambda: Batches(CREATIONS_AT_ONCE), compare=False)
    # One that reads starts, and one that binds runs.
    transactions: Batches = field(default_factory=lambda: Batches(2), compare=False)
    hand_overs: HandOvers = field(default_factory=HandOvers, compare=False)

    async def read(
        self, work: Callable[Concatenate[ReadingSession, P], T], *args: P.args, **named: P.kwargs
    ) -> T:
        """Call `work` with a read-only session, in a thread."""

        def read() -> T:
            with self.ledger.reading() as session:
                return work(session, *args, **named)

        return await asyncio.to_thread(read)

    async def write(
        self, work: Callable[Concatenate[WritingSession, P], T], *args: P.args, **named: P.kwargs
    ) -> T:
        """Call `work` in a transaction of the service itself, in a thread."""

        def write() -> T:
            with self.ledger.writing(SERVICE) as session:
                return work(session, *args, **named)

        return await asyncio.to_thread(write)
