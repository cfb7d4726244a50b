"""What those need who tell Prefect about the ledger, or the ledger about Prefect."""

from dataclasses import dataclass

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Ledger, Prefect, and the settings of both."""

    ledger: Ledger
    prefect: PrefectApi
    settings: Settings
