"""What an application definition says (specification 2.1): pure, without I/O."""

from jobauto_prefect.definitions.kubernetes import (
    Helm,
    Kubernetes,
    PodArtifacts,
    Setting,
    parse_kubernetes,
)
from jobauto_prefect.definitions.localized import text
from jobauto_prefect.definitions.model import (
    ArtifactDeclaration,
    Definition,
    ExitCode,
    Localized,
    Option,
    Severity,
    Variable,
    VariableType,
)
from jobauto_prefect.definitions.names import EVENT_VARIABLES, INJECTED, is_known, placeholders
from jobauto_prefect.definitions.parse import parse, parse_exit_codes
from jobauto_prefect.definitions.patterns import PatternMatcher, pattern_of
from jobauto_prefect.definitions.policies import ContactLost, Misfire, OnClosed, Overlap
from jobauto_prefect.definitions.retrying import Backoff, attempts_of, retry_at, retry_wait
from jobauto_prefect.definitions.schema import SCHEMA_VERSION, schema
from jobauto_prefect.definitions.upgrade import SAID_TWICE, Change, Upgrade, upgrade
from jobauto_prefect.definitions.validation import Report, check, validate
from jobauto_prefect.definitions.values import coerce, default_value, fits, to_text
from jobauto_prefect.definitions.versions import version_numbers

__all__ = [
    "EVENT_VARIABLES",
    "INJECTED",
    "SAID_TWICE",
    "SCHEMA_VERSION",
    "ArtifactDeclaration",
    "Backoff",
    "Change",
    "ContactLost",
    "Definition",
    "ExitCode",
    "Helm",
    "Kubernetes",
    "Localized",
    "Misfire",
    "OnClosed",
    "Option",
    "Overlap",
    "PatternMatcher",
    "PodArtifacts",
    "Report",
    "Setting",
    "Severity",
    "Upgrade",
    "Variable",
    "VariableType",
    "attempts_of",
    "check",
    "coerce",
    "default_value",
    "fits",
    "is_known",
    "parse",
    "parse_exit_codes",
    "parse_kubernetes",
    "pattern_of",
    "placeholders",
    "retry_at",
    "retry_wait",
    "schema",
    "text",
    "to_text",
    "upgrade",
    "validate",
    "version_numbers",
]
