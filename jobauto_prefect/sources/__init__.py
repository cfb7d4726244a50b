"""Event sources (adapter databases whose changes are events), and notifications of events."""

from jobauto_prefect.sources.poller import Poller, floor_of
from jobauto_prefect.sources.probe import Reachability, probe
from jobauto_prefect.sources.targets import (
    Target,
    TargetRules,
    fault_of,
    fault_of_url,
    source_rules,
    source_target,
    webhook_rules,
)
from jobauto_prefect.sources.webhooks import WebhookSender

__all__ = [
    "Poller",
    "Reachability",
    "Target",
    "TargetRules",
    "WebhookSender",
    "fault_of",
    "fault_of_url",
    "floor_of",
    "probe",
    "source_rules",
    "source_target",
    "webhook_rules",
]
