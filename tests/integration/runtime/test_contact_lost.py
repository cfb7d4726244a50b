"""A worker that has lost the facade: what its run templates want done with their jobs."""

import asyncio

from jobauto_prefect.runtime.protocol import Ending
from tests.support.launches import Opened, launch
from tests.support.recorder import Recorder
from tests.support.waits import until


async def test_after_one_lease_the_jobs_that_may_not_go_on_alone_are_ended(
    opened: Opened, facade: Recorder
) -> None:
    facade.lease_seconds = 1.5
    worker = await opened()
    ended = asyncio.create_task(
        worker.runner.run(launch(worker, "echo one; sleep 60", stop_without_contact=True))
    )
    goes_on = asyncio.create_task(worker.runner.run(launch(worker, "echo one; sleep 6", job=2)))
    await until(lambda: all(facade.lines(job) for job in (1, 2)))
    facade.stop()
    await asyncio.sleep(4.5)  # one lease, its renewals, and the end of the processes
    facade.start()
    outcome = await asyncio.wait_for(ended, 20)
    assert outcome.report.ending is Ending.LOST
    assert "no contact" in outcome.report.message
    other = await asyncio.wait_for(goes_on, 20)
    assert (other.report.ending, other.report.exit_code) == (Ending.EXITED, 0)
