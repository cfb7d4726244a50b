"""What the work pools of a Prefect server are like, for those who remember it."""

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.pool import POOL_TYPE
from jobauto_prefect.ledger.prefect_status import PrefectStatus

PAGE = 200  # Prefect's largest


async def pool_status(api: PrefectApi) -> PrefectStatus:
    """Which work pools are paused, and which are served by other kinds of worker.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    paused: set[str] = set()
    foreign: set[str] = set()
    offset = 0
    while True:
        page = await api.post("/work_pools/filter", {"limit": PAGE, "offset": offset})
        paused |= {pool["name"] for pool in page if pool["is_paused"]}
        foreign |= {pool["name"] for pool in page if pool["type"] != POOL_TYPE}
        offset += len(page)
        if len(page) < PAGE:
            return PrefectStatus(paused=paused, foreign=foreign)
