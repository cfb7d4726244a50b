"""A worker that has lost the facade: what its run templates want done with their jobs."""

import asyncio
from pathlib import Path

from jobauto_prefect.runtime.protocol import Ending
from tests.support.launches import Opened, launch
from tests.support.recorder import Recorder
from tests.support.waits import until


async def test_after_one_lease_the_jobs_that_may_not_go_on_alone_are_ended(
    opened: Opened, facade: Recorder, tmp_path: Path
) -> None:
    facade.lease_seconds = 4
    worker = await opened()
    ended = asyncio.create_task(
        worker.runner.run(launch(worker, "echo one; sleep 60", stop_without_contact=True))
    )
    go = tmp_path / "go"
    script = f"echo one; until [ -e {go} ]; do sleep 0.1; done"
    goes_on = asyncio.create_task(worker.runner.run(launch(worker, script, job=2)))
    await until(lambda: all(facade.lines(job) for job in (1, 2)))
    facade.stop()
    await until(lambda: worker.runner._jobs[1]._why is not None)
    facade.start()
    outcome = await asyncio.wait_for(ended, 60)
    assert outcome.report.ending is Ending.LOST
    assert "no contact" in outcome.report.message
    go.touch()
    other = await asyncio.wait_for(goes_on, 60)
    assert (other.report.ending, other.report.exit_code) == (Ending.EXITED, 0)
