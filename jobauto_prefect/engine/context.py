"""Dependencies shared by code that syncs the ledger with Prefect."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, TypeVar

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.store import Ledger, ReadingSession
from jobauto_prefect.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EngineContext:
    """Ledger, Prefect, and the settings of both."""

    ledger: Ledger
    prefect: PrefectApi
    settings: Settings

    async def read(
        self, work: Callable[Concatenate[ReadingSession, P], T], *args: P.args, **named: P.kwargs
    ) -> T:
        """Call `work` with a session that only reads, in a thread."""

        def read() -> T:
            with self.ledger.reading() as session:
                return work(session, *args, **named)

        return await asyncio.to_thread(read)

    async def write(
        self, work: Callable[Concatenate[WritingSession, P], T], *args: P.args, **named: P.kwargs
    ) -> T:
        """Call `work` within a transaction of the service's own, in a thread."""

        def write() -> T:
            with self.ledger.writing(SERVICE) as session:
                return work(session, *args, **named)

        return await asyncio.to_thread(write)
