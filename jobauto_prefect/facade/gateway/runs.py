"""What people's flow runs and states may be, and whose their idempotency keys are. Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

from jobauto_prefect.errors import Forbidden
from jobauto_prefect.facade.gateway.narrowing import Body, members_of

SCHEDULED = "SCHEDULED"
WORKERS_STATES = frozenset({"PENDING", "RUNNING"})
"""A run in one of them takes a place in its work pool: only who runs it may say so."""

KEY = "idempotency_key"


def with_deployment_keys(body: Any, deployment_id: str) -> Any:
    """New runs whose idempotency keys are of their deployment alone.

    Prefect's keys are per flow, which companies share, and the service's own keys are among them.
    """
    prefix = str(UUID(deployment_id))

    def prefixed(run: Body) -> Body:
        key = run.get(KEY)
        return run | {KEY: f"{prefix} {key}"} if isinstance(key, str) and key else run

    return _each(body, prefixed)


def require_scheduled(body: Any) -> None:
    """Refuse new runs that are born in another state than Scheduled.

    Raises:
        Forbidden: there is one.
    """
    for run in _runs(body):
        if run.get("state") is not None and _kind(run["state"]) != SCHEDULED:
            raise Forbidden("only administrators may make runs that are not Scheduled")
        _require_plain_details(run)


def without_force(body: Any) -> Any:
    """A new state by who is no administrator.

    Prefect's pages ask for `force` with every state: it is left out, and Prefect's rules about
    which state may follow which decide.

    Raises:
        Forbidden: it is a state that only workers give.
    """
    given = members_of(body)
    if _kind(given.get("state")) in WORKERS_STATES:
        raise Forbidden("only workers make runs Pending or Running")
    _require_plain_details(given)
    return given | {"force": False}


def _require_plain_details(members: Mapping[str, Any]) -> None:
    """Prefect checks what a paused run is resumed with by a schema that such a state names."""
    details = members_of(members_of(members.get("state")).get("state_details"))
    if details.get("run_input_keyset"):
        raise Forbidden("only administrators may have a paused run wait for input")


def _kind(state: Any) -> str:
    return str(members_of(state).get("type")).upper()


def _runs(body: Any) -> Iterator[Body]:
    yield from map(members_of, body if isinstance(body, list) else [body])


def _each(body: Any, change: Callable[[Body], Body]) -> Any:
    if body is None:
        return None
    changed = [change(run) for run in _runs(body)]
    return changed if isinstance(body, list) else changed[0]
