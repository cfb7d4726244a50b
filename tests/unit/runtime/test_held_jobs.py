"""What a worker says in its renewals."""

from typing import Any
from uuid import UUID, uuid4

from jobauto_prefect.runtime.protocol import Launch
from jobauto_prefect.runtime.runner import HeldJobs


def launch_of(job_id: int) -> Launch:
    members: dict[str, Any] = {
        "job_id": job_id, "claim_id": UUID(int=job_id), "title": "t", "argv": ["true"],
        "command_shown": "true", "environment": {}, "directory": "/d", "timeout_seconds": 1,
        "lease_seconds": 1, "output_limit_bytes": 1, "artifact_limit_bytes": 1,
    }  # fmt: skip
    return Launch(**members)


def held() -> HeldJobs:
    return HeldJobs("w", uuid4())


def test_what_was_granted_is_named_without_a_gap_from_its_claim_to_its_report() -> None:
    jobs, launch = held(), launch_of(1)
    with jobs.claiming(launch.claim_id):
        assert jobs.next_renewal().claims == [launch.claim_id]
        jobs.hold(launch)
        assert jobs.next_renewal().jobs == {1: launch.claim_id}
    renewal = jobs.next_renewal()
    assert (renewal.claims, renewal.jobs) == ([], {1: launch.claim_id})
    assert jobs.next_renewal(settled=[1]).jobs == {}
    jobs.release(1)
    assert jobs.next_renewal().jobs == {}


def test_a_claim_that_was_given_up_is_not_named() -> None:
    jobs = held()
    with jobs.claiming(uuid4()):
        pass
    assert jobs.next_renewal().claims == []


def test_jobs_that_can_not_be_asked_about_and_outcomes_left_on_disk_are_unknown() -> None:
    jobs = held()
    for number in (1, 2):
        jobs.hold(launch_of(number))
    jobs.leave_to_successor(2)
    renewal = jobs.next_renewal(unreachable=[1])
    assert (renewal.jobs, renewal.unknown) == ({}, {1: UUID(int=1), 2: UUID(int=2)})


def test_the_numbers_of_renewals_rise_and_only_answered_ones_count() -> None:
    jobs = held()
    first, second = jobs.next_renewal(), jobs.next_renewal()
    assert (first.number, second.number, second.answered) == (1, 2, 0)
    jobs.answered(second)
    jobs.answered(first)  # late
    assert jobs.next_renewal().answered == 2


def test_a_job_that_is_stopped_before_it_began_does_not_begin() -> None:
    jobs = held()
    jobs.stop(1, "not held")
    assert jobs.reason_to_stop(1) is None
    jobs.hold(launch_of(1))
    jobs.stop(1, "fenced")
    assert jobs.reason_to_stop(1) == "fenced"
    jobs.release(1)
    assert jobs.reason_to_stop(1) is None
