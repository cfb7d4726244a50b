"""Names that commands and artifact paths may refer to."""

import re
from collections.abc import Iterable, Iterator

_INJECTED = (
    "JOB_ID TASK_ID ATTEMPT APPLICATION_ID APPLICATION_NAME APPLICATION_UUID COMPANY_ID"
    " COMPANY_CODE COMPANY_NAME RUNTEMPLATE_ID RUNTEMPLATE_NAME EXECUTOR VERSION WINDOW_START"
)

INJECTED: frozenset[str] = frozenset(
    {prefix + name for name in _INJECTED.split() for prefix in ("JOBAUTO_", "MULTIFLEXI_")}
    | {"JOBAUTO_JOB_DIR", "MULTIFLEXI_TMP"}
)
"""Variables that every job gets, whatever its definition says."""

EVENT_VARIABLES = (
    "EVENT_INVERSION",
    "EVENT_EVIDENCE",
    "EVENT_OPERATION",
    "EVENT_RECORD_ID",
    "EVENT_DOCUMENT_URI",
)
"""Variables that a job started by an event gets, whatever its definition says."""

PLACEHOLDER = re.compile(r"\$\{([A-Za-z0-9_]+)\}")
"""`${VAR}`."""

MACRO = re.compile(r"\$?\{([A-Za-z_0-9]+)\}")
"""What is replaced in a value: `${VAR}` or `{VAR}`."""

LEGACY_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Z0-9_]*[A-Z_][A-Z0-9_]*)\}")
"""`{VAR}`, a placeholder only if VAR is a known name; digits alone repeat a pattern."""


def has_value(name: str, declared: Iterable[str]) -> bool:
    """Whether a placeholder of this name has a value: declared by the definition or injected."""
    return name in declared or name in INJECTED


def placeholders(template: str) -> Iterator[str]:
    """Yield the names of all `${VAR}` in a template, in order, known or not."""
    for match in PLACEHOLDER.finditer(template):
        yield match[1]
