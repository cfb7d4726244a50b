"""Event sources: adapter databases whose changes are events."""

from jobauto_prefect.sources.known import rules_of, target_of
from jobauto_prefect.sources.poller import Poller
from jobauto_prefect.sources.probing import Reachability, probe
from jobauto_prefect.sources.targets import Target, TargetRules, fault_of

__all__ = [
    "Poller",
    "Reachability",
    "Target",
    "TargetRules",
    "fault_of",
    "probe",
    "rules_of",
    "target_of",
]
