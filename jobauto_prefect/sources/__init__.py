"""Event sources: adapter databases whose changes are events; and who is told of events."""

from jobauto_prefect.sources.known import rules_of, target_of, webhook_rules
from jobauto_prefect.sources.poller import Poller
from jobauto_prefect.sources.probing import Reachability, probe
from jobauto_prefect.sources.targets import Target, TargetRules, fault_of, fault_of_url
from jobauto_prefect.sources.webhooks import Webhooks

__all__ = [
    "Poller",
    "Reachability",
    "Target",
    "TargetRules",
    "Webhooks",
    "fault_of",
    "fault_of_url",
    "probe",
    "rules_of",
    "target_of",
    "webhook_rules",
]
