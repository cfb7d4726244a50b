"""Ids of transitions: who tells Prefect the same twice is counted once."""

from uuid import UUID, uuid5

from jobauto_prefect.runtime.protocol import PrefectState

NAMESPACE = UUID("0d3a6c1e-6f1c-4c55-9f7e-0b7d5a5d9a41")


def transition_of(subject: UUID | str, state: PrefectState) -> UUID:
    """The id of the transition of a claim's run, or of a job without one, to a state."""
    return uuid5(NAMESPACE, f"{subject} {state}")
