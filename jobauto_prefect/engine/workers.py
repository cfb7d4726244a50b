"""The work pools of run templates and their workers, as Prefect knows them."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.errors import NotFound


@dataclass(frozen=True, slots=True)
class Pool:
    """A work pool; `workers` are its workers as Prefect shows them, None: there is no such pool.

    `paused` pools start nothing.
    """

    name: str
    type: str | None = None
    paused: bool = False
    workers: list[dict[str, Any]] | None = None


async def pools(prefect: PrefectApi, names: Iterable[str]) -> list[Pool]:
    """These work pools, in their order.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    return list(await asyncio.gather(*(_pool(prefect, name) for name in names)))


async def _pool(prefect: PrefectApi, name: str) -> Pool:
    path = f"/work_pools/{quote(name, safe='')}"
    try:
        found, workers = await asyncio.gather(
            prefect.get(path), prefect.post(f"{path}/workers/filter", {})
        )
    except NotFound:
        return Pool(name)
    return Pool(name, found["type"], found["is_paused"], workers)
