"""A claim that comes before its flow run is bound to a job."""

import asyncio
from uuid import uuid4

from jobauto_prefect.engine.hand_overs import WAIT_SECONDS, HandOvers

DEPLOYMENT, RUN = uuid4(), uuid4()


async def is_over(waiting: asyncio.Task[None]) -> bool:
    for _ in range(5):
        await asyncio.sleep(0)
    return waiting.done()


async def test_a_claim_waits_until_its_run_is_bound() -> None:
    hand_overs = HandOvers()
    with hand_overs.under_way(DEPLOYMENT):
        with hand_overs.under_way(DEPLOYMENT):
            waiting = asyncio.create_task(hand_overs.wait(RUN, DEPLOYMENT))
            assert not await is_over(waiting)
            hand_overs.note_bound(RUN)
        assert await is_over(waiting)  # whatever else of its deployment is under way
        assert await is_over(asyncio.create_task(hand_overs.wait(RUN, DEPLOYMENT)))


async def test_a_claim_does_not_wait_for_what_failed_or_is_of_another_deployment() -> None:
    hand_overs = HandOvers()
    with hand_overs.under_way(DEPLOYMENT):
        assert await is_over(asyncio.create_task(hand_overs.wait(RUN, uuid4())))
        waiting = asyncio.create_task(hand_overs.wait(RUN, DEPLOYMENT))
    assert await is_over(waiting)


async def test_a_claim_is_decided_all_the_same_where_a_hand_over_takes_long() -> None:
    hand_overs = HandOvers()
    with hand_overs.under_way(DEPLOYMENT):
        async with asyncio.timeout(10 * WAIT_SECONDS):
            await hand_overs.wait(RUN, DEPLOYMENT)
