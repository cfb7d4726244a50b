"""From definitions and run templates to plans of Prefect's objects; pure."""

from jobauto_prefect.compiler.deployments import TemplateFacts, deployment_plan, flow_plan
from jobauto_prefect.compiler.descriptions import describe_application
from jobauto_prefect.compiler.parameters import ParameterSchema, parameters
from jobauto_prefect.compiler.plan import DeploymentPlan, FlowPlan, SchedulePlan, prefect_name
from jobauto_prefect.compiler.scheduling.deadlines import deadline_of, relative_of
from jobauto_prefect.compiler.scheduling.schedule import (
    CODES,
    Schedule,
    cron_of,
    schedule_of,
    zone_of,
)
from jobauto_prefect.compiler.scheduling.schedule_errors import schedule_faults
from jobauto_prefect.compiler.scheduling.windows import (
    Window,
    next_window,
    window_at,
    windows_after,
    windows_between,
)

__all__ = [
    "CODES",
    "DeploymentPlan",
    "FlowPlan",
    "ParameterSchema",
    "Schedule",
    "SchedulePlan",
    "TemplateFacts",
    "Window",
    "cron_of",
    "deadline_of",
    "deployment_plan",
    "describe_application",
    "flow_plan",
    "next_window",
    "parameters",
    "prefect_name",
    "relative_of",
    "schedule_faults",
    "schedule_of",
    "window_at",
    "windows_after",
    "windows_between",
    "zone_of",
]
