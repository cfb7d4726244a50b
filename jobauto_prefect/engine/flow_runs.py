"""Flow runs: creating them, setting their states, ending them."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.errors import JobautoError, NotFound, PrefectFailed
from jobauto_prefect.jobs.appearance import RunAppearance
from jobauto_prefect.runtime.protocol import PrefectState, RunStatus

logger = logging.getLogger(__name__)

ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
ENDING = frozenset({"CANCELLING", "CANCELLED"})
FAILED = "Error validating state: "
"""Prefix of Prefect's reason for not setting a state because its own code failed."""

CANCELLED_IN_PREFECT = "cancelled in Prefect"
"""Message of a job whose run was cancelled there."""


class Verdict(StrEnum):
    """Prefect's answer to a proposed state."""

    ACCEPT = "ACCEPT"
    REJECT = "REJECT"  #: another state was set, or the run keeps its current one
    WAIT = "WAIT"  #: too early; ask again in `wait_seconds`
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True)
class Proposal:
    """Prefect's answer to a proposed state; `state` is the run's type of state now."""

    verdict: Verdict
    state: str
    reason: str = ""
    wait_seconds: float = 0

    @property
    def accepted(self) -> bool:
        """The run has the proposed state."""
        return self.verdict is Verdict.ACCEPT


@dataclass(frozen=True, slots=True)
class NewRun:
    """A flow run to be created; a key that was used before returns the existing run.

    The parameters are not checked against the deployment's schema: the claim reports what is
    missing, with better messages.
    """

    name: str
    scheduled: datetime
    parameters: Mapping[str, Any]
    labels: Mapping[str, str | int] = field(default_factory=dict)
    idempotency_key: str = field(default_factory=lambda: str(uuid4()))

    @property
    def body(self) -> dict[str, Any]:
        """Return the run as the body of Prefect's request."""
        return {
            "name": self.name,
            "parameters": dict(self.parameters),
            "enforce_parameter_schema": False,
            "labels": dict(self.labels),
            "idempotency_key": self.idempotency_key,
            "state": {
                "type": "SCHEDULED",
                "state_details": {"scheduled_time": self.scheduled.isoformat()},
            },
        }


async def create_run(api: PrefectApi, deployment_id: UUID, run: NewRun) -> UUID:
    """Create a flow run of a deployment.

    Raises:
        NotFound: the deployment is gone.
    """
    answer = await api.post(f"/deployments/{deployment_id}/create_flow_run", run.body)
    return UUID(answer["id"])


async def create_runs(
    api: PrefectApi, deployment_id: UUID, runs: Sequence[NewRun]
) -> Sequence[UUID | BaseException]:
    """Create flow runs of a deployment with one call; return the id or the error of each.

    Prefect creates all of them in one transaction. If the database refuses one, the others are
    rolled back, too, although the answer has their ids; if the answer is lost, the result is
    unknown. In both cases each is created by a separate call, with its key.
    """
    if len(runs) > 1 and (created := await _created_together(api, deployment_id, runs)):
        return [created[run.idempotency_key] for run in runs]
    alone = (create_run(api, deployment_id, run) for run in runs)
    return await asyncio.gather(*alone, return_exceptions=True)


async def _created_together(
    api: PrefectApi, deployment_id: UUID, runs: Sequence[NewRun]
) -> dict[str, UUID] | None:
    """Return key -> id, or None if they have to be created one by one."""
    bodies = {run.idempotency_key: run.body for run in runs}  # keys are unique
    path = f"/deployments/{deployment_id}/create_flow_run/bulk"
    try:
        answer = await api.post_once(path, list(bodies.values()))
    except JobautoError as error:
        logger.info("creating flow runs one by one: %s", error)
        return None
    results = answer["results"]
    if [result["status"] for result in results] != ["CREATED"] * len(bodies):
        return None
    return {key: UUID(result["flow_run_id"]) for key, result in zip(bodies, results, strict=True)}


async def propose(
    api: PrefectApi,
    flow_run_id: UUID,
    state: str,
    message: str = "",
    *,
    at: datetime | None = None,
    transition_id: UUID | None = None,
    force: bool = False,
) -> Proposal:
    """Ask Prefect to give a flow run a state; `at` is the start time of a scheduled one.

    A proposal repeated with the same `transition_id` counts once. `force` skips Prefect's rules
    about which state may follow which.

    Raises:
        NotFound: the flow run is gone.
        PrefectFailed: its own code failed before it decided.
    """
    proposed = _proposed(state, message, transition_id or uuid4())
    if at is not None:
        proposed["state_details"]["scheduled_time"] = at.isoformat()
    body = {"state": proposed, "force": force}
    answer = await api.post(f"/flow_runs/{flow_run_id}/set_state", body)
    proposal = _proposal(answer, proposed)
    if proposal.verdict is Verdict.ABORT and proposal.reason.startswith(FAILED):
        raise PrefectFailed(f"Prefect fails on flow run {flow_run_id}: {proposal.reason}")
    return proposal


def _proposed(state: str, message: str, transition_id: UUID) -> dict[str, Any]:
    details = {"transition_id": str(transition_id)}
    return {"type": state, "message": message or None, "state_details": details}


def _proposal(answer: Mapping[str, Any], proposed: Mapping[str, Any]) -> Proposal:
    """Read Prefect's answer; a proposal accepted earlier, whose answer got lost, is accepted."""
    present, why = answer.get("state") or {}, answer.get("details") or {}
    verdict = Verdict(answer["status"])
    last_transition = (present.get("state_details") or {}).get("transition_id")
    if verdict is Verdict.REJECT and last_transition == proposed["state_details"]["transition_id"]:
        verdict = Verdict.ACCEPT
    return Proposal(
        verdict, present.get("type", ""), why.get("reason") or "", why.get("delay_seconds") or 0
    )


async def propose_together(
    api: PrefectApi, flow_run_ids: Sequence[UUID], state: str, message: str, transition_id: UUID
) -> dict[UUID, Proposal]:
    """Ask Prefect to give flow runs one state with one call; return the decisions by run.

    The caller proposes missing runs singly, with the same `transition_id`: such a run is gone, or
    it is too early, or Prefect failed on it and may have set the state even so.

    Raises:
        Forbidden, NotFound: this server has no such call.
        Conflict: the gateway refuses all because of one.
    """
    if not flow_run_ids:
        return {}
    proposed = _proposed(state, message, transition_id)
    named = {"id": {"any_": [str(flow_run_id) for flow_run_id in flow_run_ids]}}
    body = {"flow_runs": named, "state": proposed, "limit": len(flow_run_ids)}
    answer = await api.post("/flow_runs/bulk_set_state", body)
    proposals = {
        UUID(result["flow_run_id"]): _proposal(result, proposed) for result in answer["results"]
    }
    return {
        flow_run_id: proposal
        for flow_run_id, proposal in proposals.items()
        if proposal.state and proposal.verdict is not Verdict.WAIT
    }


async def set_state(
    api: PrefectApi, flow_run_id: UUID, run_status: RunStatus, *, force: bool = False
) -> bool:
    """Set a flow run's state to that of a run status; return False if the run is gone.

    Prefect only lets a run that is being cancelled become Cancelled; it then becomes Cancelled with
    this message. If Prefect would retry a failed run itself (`empirical_policy`), the run fails
    anyway: the run template decides about retries, and no worker would start that one.
    """
    try:
        answer = await propose(
            api,
            flow_run_id,
            run_status.state,
            run_status.message,
            at=run_status.at,
            transition_id=run_status.transition_id,
            force=force,
        )
        await insist(api, flow_run_id, run_status, answer)
    except NotFound:
        return False
    return True


async def insist(
    api: PrefectApi, flow_run_id: UUID, run_status: RunStatus, answer: Proposal
) -> None:
    """Force the end of a flow run if Prefect answered the proposed state with another one.

    Raises:
        NotFound: the flow run is gone.
    """
    propose_state = functools.partial(
        propose,
        api,
        flow_run_id,
        message=run_status.message,
        transition_id=run_status.transition_id,
    )
    if not answer.accepted and answer.state == "CANCELLING":
        await propose_state(state=PrefectState.CANCELLED)
    elif answer.state == PrefectState.SCHEDULED and run_status.state == PrefectState.FAILED:
        await propose_state(state=run_status.state, force=True)


async def cancel_run(api: PrefectApi, flow_run_id: UUID, message: str = "") -> bool:
    """Cancel a flow run: a waiting one becomes Cancelled, a running one Cancelling.

    One that has ended stays as it is. Return False if it is gone.
    """
    try:
        await propose(api, flow_run_id, "CANCELLING", message)
    except NotFound:
        return False
    return True


async def name_run(api: PrefectApi, flow_run_id: UUID, name: str) -> None:
    """Rename a flow run, unless it is gone."""
    with contextlib.suppress(NotFound):
        await api.patch(f"/flow_runs/{flow_run_id}", {"name": name})


async def change_appearance(api: PrefectApi, flow_run_id: UUID, appearance: RunAppearance) -> None:
    """Set a flow run's name and tags with one call, unless it is gone."""
    body = {"name": appearance.name, "tags": list(appearance.tags)}
    with contextlib.suppress(NotFound):
        await api.patch(f"/flow_runs/{flow_run_id}", body)


async def add_labels(api: PrefectApi, flow_run_id: UUID, labels: Mapping[str, str | int]) -> None:
    """Add labels to a flow run, unless it is gone; its other labels stay."""
    with contextlib.suppress(NotFound):
        await api.patch(f"/flow_runs/{flow_run_id}/labels", dict(labels))


async def add_page(api: PrefectApi, flow_run_id: UUID, run_status: RunStatus) -> None:
    """Add the page of a job, if it has one, to the artifacts of a flow run."""
    if run_status.artifact_markdown is None:
        return
    body = {
        "key": run_status.artifact_key,
        "type": "markdown",
        "description": run_status.message,
        "data": run_status.artifact_markdown,
        "flow_run_id": str(flow_run_id),
    }
    await api.post("/artifacts/", body)


async def show_status(
    api: PrefectApi, flow_run_id: UUID, run_status: RunStatus, *, force: bool = False
) -> bool:
    """Show a complete run status in Prefect on behalf of its driver; add its page only once.

    Return False if the run is gone. `force`: whatever state it has now.
    """
    # Its worker reported the end, in a batch with another transition id: it counts once.
    is_completed = (
        run_status.state is PrefectState.COMPLETED
        and (await read_states(api, [flow_run_id])).get(flow_run_id) == PrefectState.COMPLETED
    )
    if not is_completed and not await set_state(api, flow_run_id, run_status, force=force):
        return False
    await _show_metadata(api, flow_run_id, run_status)
    of_run = {"artifacts": {"flow_run_id": {"any_": [str(flow_run_id)]}}}
    pages = await api.post("/artifacts/filter", of_run)
    # The driver's page of the same end says more: it knows the job's result files.
    if all(page["description"] != run_status.message for page in pages):
        await add_page(api, flow_run_id, run_status)
    return True


async def _show_metadata(api: PrefectApi, flow_run_id: UUID, run_status: RunStatus) -> None:
    """Show name, tags and labels. Tags are read before they are written, which few ends need."""
    status = None
    if run_status.has_warning:
        status = (await read_runs(api, [flow_run_id])).get(flow_run_id)
    if status is not None:
        named = RunAppearance(run_status.run_name or status.appearance.name, status.appearance.tags)
        await change_appearance(api, flow_run_id, named.ended(with_warning=True))
    elif run_status.run_name:
        await name_run(api, flow_run_id, run_status.run_name)
    if run_status.labels:
        await add_labels(api, flow_run_id, run_status.labels)


@dataclass(frozen=True, slots=True)
class PrefectRun:
    """What Prefect shows of a flow run: state type, how often it was Running, its appearance."""

    state: str
    run_count: int
    appearance: RunAppearance


async def read_runs(api: PrefectApi, flow_run_ids: Iterable[UUID]) -> dict[UUID, PrefectRun | None]:
    """Return the status of each flow run, 200 per call, without runs that are gone.

    It is None if Prefect has, or had, the run but can't read it.
    """
    runs, unreadable = await api.find("flow_runs", map(str, flow_run_ids))
    statuses: dict[UUID, PrefectRun | None] = dict.fromkeys(map(UUID, unreadable))
    for run in runs:
        appearance = RunAppearance(run["name"], tuple(run["tags"]))
        status = PrefectRun(run["state_type"], run["run_count"], appearance)
        statuses[UUID(run["id"])] = status
    return statuses


async def read_states(api: PrefectApi, flow_run_ids: Iterable[UUID]) -> dict[UUID, str | None]:
    """Return the state type of each flow run, like `read_runs`."""
    statuses = await read_runs(api, flow_run_ids)
    return {run: status.state if status else None for run, status in statuses.items()}


async def was_cancelled(api: PrefectApi, flow_run_id: UUID) -> bool:
    """Whether a flow run was cancelled since it was last scheduled.

    The present state is not enough: Prefect lets a cancelled run become Running.
    """
    states = await api.get(f"/flow_run_states/?flow_run_id={flow_run_id}")
    ended = False
    for state in sorted(states, key=lambda state: datetime.fromisoformat(state["timestamp"])):
        if state["type"] in ENDING:
            ended = True
        elif state["type"] == "SCHEDULED":
            ended = False
    return ended
