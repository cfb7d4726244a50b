"""Prefect: applying plans, flow runs, the jobauto worker, compiled flows.

Prefect itself is imported only by the modules that drive it (`worker`, `applications`).
"""

from jobauto_prefect.engine.api import PrefectApi, authorization, environment_authorization
from jobauto_prefect.engine.apply import Applied, AppliedIds, apply, retire
from jobauto_prefect.engine.runs import cancel_run, create_run, name_run, set_state, states_of
from jobauto_prefect.engine.server import prefect_command, wait_ready

__all__ = [
    "Applied",
    "AppliedIds",
    "PrefectApi",
    "apply",
    "authorization",
    "cancel_run",
    "create_run",
    "environment_authorization",
    "name_run",
    "prefect_command",
    "retire",
    "set_state",
    "states_of",
    "wait_ready",
]
