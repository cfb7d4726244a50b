"""The state of a job, from the status of its pod. Pure.

Reasons and conditions have Kubernetes' names (API reference, PodStatus and ContainerState).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.runtime.executors.kubernetes.manifest import JOB
from jobauto_prefect.runtime.exit_codes import NOT_EXECUTABLE, NOT_FOUND

Object = Mapping[str, Any]
"""An object from the API, as JSON."""

UNSTARTABLE = ("StartError", "ContainerCannotRun", "RunContainerError")
HOPELESS = ("InvalidImageName", "ErrImageNeverPull")
MISSING = ("no such file", "not found")


@dataclass(frozen=True, slots=True)
class Pending:
    """The job is not running yet; a `hopeless` one never will.

    `why` is empty if nothing is wrong so far. `exit_code` is what a shell would return, None if
    nothing has tried to start it.
    """

    why: str = ""
    hopeless: bool = False
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """The process of the job is running."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The process of the job has ended.

    `lost` says what happened to it, None if it ended by itself; `unstartable` says why it never
    started, with the exit code a shell would return. `note` is for people.
    """

    exit_code: int | None = None
    lost: str | None = None
    unstartable: str | None = None
    note: str = ""


PodState = Pending | Running | Finished


def read_state(pod: Object) -> PodState:
    """Read the state of a pod's job from the pod's status."""
    status = pod.get("status", {})
    state = container_state(pod, JOB)
    if "terminated" in state:
        return _terminated(status, state["terminated"])
    if status.get("phase") == "Failed":
        return Finished(lost=_disruption(status) or "its pod failed")
    if "running" in state:
        return Running()
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if container.get("name") == JOB and reason not in ("", "ContainerCreating"):
            why = _explained("its container does not start", reason, waiting.get("message", ""))
            return Pending(why, reason in HOPELESS, NOT_EXECUTABLE)
    condition = _condition(status, "PodScheduled", "False")
    if condition is None:
        return Pending()
    why = _explained(
        "no node takes its pod", condition.get("reason", ""), condition.get("message", "")
    )
    return Pending(why)


def container_state(pod: Object, name: str) -> Object:
    """Read the state of one container: `waiting`, `running`, `terminated` or none."""
    for container in pod.get("status", {}).get("containerStatuses") or ():
        if container.get("name") == name:
            state: Object = container.get("state") or {}
            return state
    return {}


def _terminated(status: Object, end: Object) -> Finished:
    code, reason, message = end.get("exitCode"), end.get("reason", ""), end.get("message", "")
    if reason in UNSTARTABLE:
        missing = any(phrase in message.lower() for phrase in MISSING)
        return Finished(NOT_FOUND if missing else NOT_EXECUTABLE, unstartable=message or reason)
    if reason == "ContainerStatusUnknown":
        return Finished(lost=_disruption(status) or "its node does not know what happened to it")
    if code != 0 and (disruption := _disruption(status)):
        return Finished(lost=disruption)
    note = "it was killed: it exceeded its memory limit" if reason == "OOMKilled" else ""
    return Finished(code, note=note)


def _disruption(status: Object) -> str | None:
    """Return why the cluster ended the pod; None if the job itself did."""
    if status.get("reason"):
        return _explained("its pod was ended", status["reason"], status.get("message", ""))
    condition = _condition(status, "DisruptionTarget", "True")
    if condition is None:
        return None
    return _explained(
        "its pod was ended", condition.get("reason", ""), condition.get("message", "")
    )


def _condition(status: Object, kind: str, value: str) -> Object | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind and condition.get("status") == value:
            result: Object = condition
            return result
    return None


def latest_warning(events: Iterable[Object]) -> str:
    """Return the text of the newest warning event; empty if there is none."""
    warnings = [event for event in events if event.get("type") == "Warning"]
    if not warnings:
        return ""
    newest = max(warnings, key=_moment)
    return _explained("", newest.get("reason", ""), newest.get("message", ""))


def _moment(event: Object) -> str:
    """Return when it happened, as the API's text, which sorts by time."""
    metadata = event.get("metadata", {})
    times = (event.get("lastTimestamp"), event.get("eventTime"), metadata.get("creationTimestamp"))
    return next((time for time in times if time), "")


def _explained(about: str, reason: str, message: str) -> str:
    return ": ".join(part for part in (about, reason, " ".join(message.split())) if part)
