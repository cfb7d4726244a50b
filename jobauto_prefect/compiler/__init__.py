"""From definitions and run templates to plans of what Prefect shall hold; pure."""

from jobauto_prefect.compiler.describe import describe_application
from jobauto_prefect.compiler.parameters import ParameterSchema, parameters
from jobauto_prefect.compiler.plan import DeploymentPlan, FlowPlan, SchedulePlan, prefect_name
from jobauto_prefect.compiler.planning import TemplateFacts, deployment_plan, flow_plan
from jobauto_prefect.compiler.schedule import CODES, Window, cron_of, window, zone_of

__all__ = [
    "CODES",
    "DeploymentPlan",
    "FlowPlan",
    "ParameterSchema",
    "SchedulePlan",
    "TemplateFacts",
    "Window",
    "cron_of",
    "deployment_plan",
    "describe_application",
    "flow_plan",
    "parameters",
    "prefect_name",
    "window",
    "zone_of",
]
