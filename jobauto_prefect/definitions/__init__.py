"""Application definitions (specification 2.1): pure, without I/O."""

from jobauto_prefect.definitions.kubernetes_section import (
    Helm,
    Kubernetes,
    PodArtifacts,
    Setting,
    parse_kubernetes,
)
from jobauto_prefect.definitions.legacy.upgrade import SAID_TWICE, Change, Upgrade, upgrade
from jobauto_prefect.definitions.model import (
    ArtifactDeclaration,
    Definition,
    ExitCode,
    Localized,
    Option,
    Severity,
    Variable,
    VariableType,
    pick_text,
)
from jobauto_prefect.definitions.parse import cache_by_text, parse, parse_exit_codes, parse_text
from jobauto_prefect.definitions.patterns import PatternMatcher, pattern_of
from jobauto_prefect.definitions.placeholders import (
    EVENT_VARIABLES,
    INJECTED,
    has_value,
    placeholders,
)
from jobauto_prefect.definitions.records.policies import (
    Backoff,
    ContactLost,
    Misfire,
    OnClosed,
    Overlap,
    attempts_of,
    retry_at,
    retry_wait,
)
from jobauto_prefect.definitions.validation.report import Report, check, read_keys, validate
from jobauto_prefect.definitions.validation.schema import SCHEMA_VERSION, schema, version_numbers
from jobauto_prefect.definitions.values import coerce, default_value, fits, to_text

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
    "cache_by_text",
    "check",
    "coerce",
    "default_value",
    "fits",
    "has_value",
    "parse",
    "parse_exit_codes",
    "parse_kubernetes",
    "parse_text",
    "pattern_of",
    "pick_text",
    "placeholders",
    "read_keys",
    "retry_at",
    "retry_wait",
    "schema",
    "to_text",
    "upgrade",
    "validate",
    "version_numbers",
]
