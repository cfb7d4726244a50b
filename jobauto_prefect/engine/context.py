"""Dependencies shared by code that syncs the ledger with Prefect."""

from dataclasses import dataclass

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings


@dataclass(frozen=True, slots=True)
class EngineContext:
    """Ledger, Prefect, and the settings of both."""

    ledger: Ledger
    prefect: PrefectApi
    settings: Settings
