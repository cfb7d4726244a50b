"""What Prefect's server lets follow the end of a job's flow run, beside its own rules."""

from typing import Any

import prefect.server.models  # noqa: F401 - or the rules import them halfway through their own import
from prefect.server.database import orm_models
from prefect.server.orchestration.core_policy import CoreFlowPolicy
from prefect.server.orchestration.dependencies import ORCHESTRATION_DEPENDENCIES
from prefect.server.orchestration.policies import FlowRunOrchestrationPolicy
from prefect.server.orchestration.rules import (
    TERMINAL_STATES,
    FlowRunOrchestrationRule,
    OrchestrationContext,
)
from prefect.server.schemas.core import FlowRunPolicy
from prefect.server.schemas.states import State, StateType

from jobauto_prefect.compiler.plan import template_in

Context = OrchestrationContext[orm_models.FlowRun, FlowRunPolicy]


class EndedRunsStayEnded(FlowRunOrchestrationRule):
    """Rejects Pending and Running after the end of a run of a run template.

    Prefect accepts them: a call that arrives late, or beside somebody's cancel, would undo the end.
    It is decided here because only Prefect's own transaction knows what came first. A run that
    is started again becomes Scheduled first. Runs of others keep Prefect's rules.
    """

    FROM_STATES = TERMINAL_STATES  # type: ignore[assignment]  # Prefect's own rules do the same
    TO_STATES = {StateType.PENDING, StateType.RUNNING}  # noqa: RUF012 - as declared there

    async def before_transition(
        self,
        initial_state: State | None,
        proposed_state: State | None,  # noqa: ARG002
        context: Context,
    ) -> None:
        """Reject the state; the answer has the present one."""
        if initial_state is not None and template_in(context.run.labels or {}) is not None:
            reason = f"this run has ended ({initial_state.type.value.lower()})"
            await self.reject_transition(None, reason)


class FlowPolicy(CoreFlowPolicy):
    """Prefect's rules, and the one above."""

    @staticmethod
    def priority() -> list[Any]:
        """Return the rules in the order in which they are asked."""
        return [EndedRunsStayEnded, *CoreFlowPolicy.priority()]


async def provide_flow_policy() -> type[FlowRunOrchestrationPolicy]:
    """Return the rules for states that are proposed without force."""
    return FlowPolicy


def add_state_rules() -> None:
    """Have Prefect's server in this process follow these rules."""
    ORCHESTRATION_DEPENDENCIES["flow_policy_provider"] = provide_flow_policy
