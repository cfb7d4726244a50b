"""A launch that grew old before its process starts is asked for again."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from jobauto_prefect.clock import seconds_since_boot
from jobauto_prefect.errors import Conflict
from jobauto_prefect.runtime.job import Outcome
from jobauto_prefect.runtime.launch import claim as launch_claim
from jobauto_prefect.runtime.launch.claim import LaunchClaim
from jobauto_prefect.runtime.protocol import Claim
from jobauto_prefect.runtime.worker_context import WorkerContext
from tests.support.launches import launch
from tests.support.recorder import Recorder, Request

LEASE_SECONDS = 60
FROZEN_SECONDS = 31  # more than half of it

Answers = list[tuple[int, Any]]


class Asked:
    """A claim of one job, answered as told."""

    def __init__(self, facade: Recorder, worker: WorkerContext, mark: Path) -> None:
        self._worker, self.mark, self.frozen_seconds = worker, mark, 0.0
        self._launch = launch(worker, f"touch {mark}", lease_seconds=LEASE_SECONDS)
        self.answers: Answers = []
        message = Claim(
            claim_id=self._launch.claim_id,
            flow_run_id=uuid4(),
            run_number=1,
            deployment_id=uuid4(),
            worker="w/1",
            instance=worker.held.instance,
            work_directory=worker.work_directory,
        )
        self.claim = LaunchClaim(worker.client, message)
        facade.answers["claims"] = self._answer
        self._granted = 200, {"launch": self._launch.model_dump(mode="json")}

    def _answer(self, _request: Request) -> tuple[int, Any]:
        return self.answers.pop(0) if self.answers else self._granted

    def since_boot(self) -> float:
        return seconds_since_boot() + self.frozen_seconds

    async def run(self, frozen_seconds: float) -> Outcome:
        answer = await self.claim.ask()
        assert answer.launch is not None
        self.frozen_seconds = frozen_seconds
        return await self._worker.runner.run(answer.launch, confirm=self.claim.confirm)


@pytest.fixture
def asked(
    facade: Recorder, worker: WorkerContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Asked:
    asked = Asked(facade, worker, tmp_path / "started")
    monkeypatch.setattr(launch_claim, "seconds_since_boot", asked.since_boot)
    return asked


async def test_a_young_launch_is_asked_for_once(asked: Asked, facade: Recorder) -> None:
    outcome = await asked.run(0)
    assert (outcome.report.exit_code, len(facade.bodies("claims"))) == (0, 1)


async def test_an_old_launch_starts_where_it_is_granted_still(
    asked: Asked, facade: Recorder
) -> None:
    outcome = await asked.run(FROZEN_SECONDS)
    first, again = facade.bodies("claims")
    assert first == again
    assert (outcome.report.exit_code, asked.mark.exists()) == (0, True)


async def test_an_old_launch_whose_job_went_on_without_it_starts_nothing(
    asked: Asked, facade: Recorder
) -> None:
    answer = await asked.claim.ask()
    over = 409, {"message": "job 1 was taken for lost", "details": {"reason": "lost"}}
    asked.answers = [over]
    asked.frozen_seconds = FROZEN_SECONDS
    assert answer.launch is not None
    outcome = await asked._worker.runner.run(answer.launch, confirm=asked.claim.confirm)
    assert (outcome.report.ending, outcome.report.started_at) == ("lost", None)
    assert "taken for lost" in outcome.report.message
    assert not asked.mark.exists()
    assert [report["ending"] for report in facade.reports(1)] == ["lost"]


async def test_a_claim_without_an_answer_is_asked_again_and_a_refused_one_is_not(
    asked: Asked, facade: Recorder
) -> None:
    asked.answers = [(503, {"message": "ask again"}), (500, {"message": "an error"})]
    assert (await asked.claim.ask()).launch is not None
    claims = facade.bodies("claims")
    assert len(claims) == 3
    assert all(claim == claims[0] for claim in claims)
    asked.answers = [(409, {"message": "another worker has it"})]
    with pytest.raises(Conflict, match="another worker"):
        await asked.claim.ask()
