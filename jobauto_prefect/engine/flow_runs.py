"""Flow runs: making them, giving them states, ending them."""

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

ENDING = frozenset({"CANCELLING", "CANCELLED"})
FAILED = "Error validating state: "
"""So begins why Prefect did not set a state, where its own code failed."""

CANCELLED_IN_PREFECT = "cancelled in Prefect"
"""Why a job whose run is one of those ends."""


class Verdict(StrEnum):
    """Prefect's answer to a proposed state."""

    ACCEPT = "ACCEPT"
    REJECT = "REJECT"  #: another state was set, or the run keeps the one it has
    WAIT = "WAIT"  #: too early; ask again in `wait_seconds`
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True)
class Proposal:
    """How Prefect took a proposed state; `state` is the run's type of state now."""

    verdict: Verdict
    state: str
    reason: str = ""
    wait_seconds: float = 0

    @property
    def accepted(self) -> bool:
        """The run is in the proposed state."""
        return self.verdict is Verdict.ACCEPT


@dataclass(frozen=True, slots=True)
class NewRun:
    """A flow run to be created; with a key that was used before, it is the one made then.

    The parameters are not checked against the deployment's schema: the claim says what is
    missing, and says it better.
    """

    name: str
    scheduled: datetime
    parameters: Mapping[str, Any]
    labels: Mapping[str, str | int] = field(default_factory=dict)
    idempotency_key: str = field(default_factory=lambda: str(uuid4()))

    @property
    def body(self) -> dict[str, Any]:
        """The run as Prefect is asked for it."""
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
    """Create flow runs of a deployment with one call; return the id of each, or why it has none.

    Prefect creates all in one transaction. Where the database refuses one of them, it takes back
    the others, too, whose ids are in the answer all the same; where the answer is lost, nothing
    is known of any. In both cases each is created by a call of its own, under its key.
    """
    if len(runs) > 1 and (created := await _created_together(api, deployment_id, runs)):
        return [created[run.idempotency_key] for run in runs]
    alone = (create_run(api, deployment_id, run) for run in runs)
    return await asyncio.gather(*alone, return_exceptions=True)


async def _created_together(
    api: PrefectApi, deployment_id: UUID, runs: Sequence[NewRun]
) -> dict[str, UUID] | None:
    """Return key -> id; None: they have to be created singly."""
    bodies = {run.idempotency_key: run.body for run in runs}  # with a key once
    path = f"/deployments/{deployment_id}/create_flow_run/bulk"
    try:
        answer = await api.post_once(path, list(bodies.values()))
    except JobautoError as error:
        logger.info("flow runs are created singly: %s", error)
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

    A proposal repeated with the same `transition_id` counts once. `force` leaves out Prefect's
    rules about which state may follow which.

    Raises:
        NotFound: the flow run is gone.
        PrefectFailed: it has not decided, for its own code failed.
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
    """Read Prefect's answer; what had been accepted, and the answer got lost, is accepted."""
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
    """Ask Prefect to give flow runs one state with one call; return what is decided, by run.

    Who is missing there is proposed alone, with the same `transition_id`: the run is gone, or it
    is too early, or Prefect failed at it and may have taken the state all the same.

    Raises:
        Forbidden, NotFound: there is no such call here.
        Conflict: the gateway refuses one of them, and then all.
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
    """Set a flow run's state to that of a run status; False: the run is gone.

    Prefect lets a run that is being cancelled become Cancelled only; it is then Cancelled with
    its message. Where it would try a failed run again by itself (`empirical_policy`), the
    run fails all the same: attempts are the run template's, and no worker would start that one.
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
    """Bring a flow run to its end where Prefect took the proposed state otherwise.

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
    """Ask for the end of a flow run: a waiting one is Cancelled, a running one Cancelling.

    One that is over stays as it is. False: it is gone.
    """
    try:
        await propose(api, flow_run_id, "CANCELLING", message)
    except NotFound:
        return False
    return True


async def name_run(api: PrefectApi, flow_run_id: UUID, name: str) -> None:
    """Give a flow run its name. A run that is gone is left."""
    with contextlib.suppress(NotFound):
        await api.patch(f"/flow_runs/{flow_run_id}", {"name": name})


async def change_appearance(api: PrefectApi, flow_run_id: UUID, appearance: RunAppearance) -> None:
    """Give a flow run its name and its tags, with one call. A run that is gone is left."""
    body = {"name": appearance.name, "tags": list(appearance.tags)}
    with contextlib.suppress(NotFound):
        await api.patch(f"/flow_runs/{flow_run_id}", body)


async def add_labels(api: PrefectApi, flow_run_id: UUID, labels: Mapping[str, str | int]) -> None:
    """Give a flow run labels; others stay. A run that is gone is left."""
    with contextlib.suppress(NotFound):
        await api.patch(f"/flow_runs/{flow_run_id}/labels", dict(labels))


async def add_page(api: PrefectApi, flow_run_id: UUID, run_status: RunStatus) -> None:
    """Add the page of a job to the artifacts of a flow run; nothing where it has none."""
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
    """Show all of a run status at a flow run, its page once; where its driver can't tell it.

    False: the run is gone. `force`: whatever it shows now.
    """
    if await _is_completed(api, flow_run_id, run_status):
        pass  # told by its worker, with others and a transition id of theirs: it counts once
    elif not await set_state(api, flow_run_id, run_status, force=force):
        return False
    await _show_metadata(api, flow_run_id, run_status)
    of_run = {"artifacts": {"flow_run_id": {"any_": [str(flow_run_id)]}}}
    pages = await api.post("/artifacts/filter", of_run)
    # Its driver's page of the same end says more: it knows what the job's files say.
    if all(page["description"] != run_status.message for page in pages):
        await add_page(api, flow_run_id, run_status)
    return True


async def _is_completed(api: PrefectApi, flow_run_id: UUID, run_status: RunStatus) -> bool:
    if run_status.state is not PrefectState.COMPLETED:
        return False
    return (await read_states(api, [flow_run_id])).get(flow_run_id) == PrefectState.COMPLETED


async def _show_metadata(api: PrefectApi, flow_run_id: UUID, run_status: RunStatus) -> None:
    """Show name, tags and labels; tags have to be known to be written, which few ends need."""
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
    """What Prefect shows of a flow run: its type of state, how often it was Running, its looks."""

    state: str
    run_count: int
    appearance: RunAppearance


async def read_runs(api: PrefectApi, flow_run_ids: Iterable[UUID]) -> dict[UUID, PrefectRun | None]:
    """Return flow run -> its status, 200 with one call; runs that are gone are left out.

    None: Prefect has the run, or had it, and can't read it.
    """
    runs, unreadable = await api.find("flow_runs", map(str, flow_run_ids))
    statuses: dict[UUID, PrefectRun | None] = dict.fromkeys(map(UUID, unreadable))
    for run in runs:
        appearance = RunAppearance(run["name"], tuple(run["tags"]))
        status = PrefectRun(run["state_type"], run["run_count"], appearance)
        statuses[UUID(run["id"])] = status
    return statuses


async def read_states(api: PrefectApi, flow_run_ids: Iterable[UUID]) -> dict[UUID, str | None]:
    """Return flow run -> type of state, as `read_runs`."""
    statuses = await read_runs(api, flow_run_ids)
    return {run: status.state if status else None for run, status in statuses.items()}


async def was_cancelled(api: PrefectApi, flow_run_id: UUID) -> bool:
    """Whether somebody ended a flow run since it was last scheduled.

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
