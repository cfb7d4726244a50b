"""What a pod's status means for its job."""

from typing import Any

import pytest

from jobauto_prefect.runtime.executors.kubernetes.pods import (
    Finished,
    Pending,
    PodState,
    Running,
    latest_warning,
    read_state,
)


def pod(phase: str, state: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    containers = [{"name": "artifacts", "state": {"running": {}}}]
    if state is not None:
        containers.append({"name": "job", "state": state})
    return {"status": {"phase": phase, "containerStatuses": containers} | status}


def ended(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available:\n Insufficient memory",
}
DISRUPTION = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "default-scheduler: preempting",
}


@pytest.mark.parametrize(
    ("found", "meaning"),
    [
        ({}, Pending()),
        (pod("Pending"), Pending()),
        (pod("Pending", waiting("ContainerCreating")), Pending()),
        (
            pod("Pending", conditions=[UNSCHEDULABLE]),
            Pending(
                "no node takes its pod: Unschedulable: 0/3 nodes are available: Insufficient memory"
            ),
        ),
        (
            pod("Pending", waiting("ImagePullBackOff", "Back-off pulling image")),
            Pending(
                "its container does not start: ImagePullBackOff: Back-off pulling image",
                exit_code=126,
            ),
        ),
        (
            pod("Pending", waiting("InvalidImageName", "bad")),
            Pending("its container does not start: InvalidImageName: bad", True, 126),
        ),
        (pod("Running", {"running": {"startedAt": "…"}}), Running()),
        (pod("Running", ended(0, "Completed")), Finished(0)),
        (pod("Running", ended(3)), Finished(3)),
        (
            pod("Failed", ended(137, "OOMKilled")),
            Finished(137, note="it was killed: it exceeded its memory limit"),
        ),
        (
            pod(
                "Failed", ended(128, "StartError", 'exec: "x": executable file not found in $PATH')
            ),
            Finished(127, unstartable='exec: "x": executable file not found in $PATH'),
        ),
        (
            pod("Failed", ended(128, "ContainerCannotRun", "permission denied")),
            Finished(126, unstartable="permission denied"),
        ),
        (
            pod("Failed", reason="Evicted", message="The node was low on resource: memory."),
            Finished(lost="its pod was ended: Evicted: The node was low on resource: memory."),
        ),
        (
            pod("Failed", ended(143), conditions=[DISRUPTION]),
            Finished(
                lost="its pod was ended: PreemptionByScheduler: default-scheduler: preempting"
            ),
        ),
        (pod("Failed", ended(0, "Completed"), conditions=[DISRUPTION]), Finished(0)),
        (
            pod("Failed", ended(137, "ContainerStatusUnknown")),
            Finished(lost="its node does not know what happened to it"),
        ),
        (pod("Failed"), Finished(lost="its pod failed")),
    ],
)
def test_each_status_has_one_meaning(found: dict[str, Any], meaning: PodState) -> None:
    assert read_state(found) == meaning


def test_the_newest_warning_says_why_there_is_no_pod() -> None:
    events = [
        {
            "type": "Warning",
            "reason": "A",
            "message": "old",
            "lastTimestamp": "2026-01-01T00:00:01Z",
        },
        {
            "type": "Warning",
            "reason": "FailedCreate",
            "message": 'pods "x" is forbidden: exceeded quota: pods',
            "lastTimestamp": None,
            "eventTime": "2026-01-01T00:00:02.000000Z",
        },
        {"type": "Normal", "reason": "B", "lastTimestamp": "2026-01-01T00:00:03Z"},
    ]
    assert latest_warning(events) == 'FailedCreate: pods "x" is forbidden: exceeded quota: pods'
    assert latest_warning([]) == ""
