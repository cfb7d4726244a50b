"""Unknown names in the settings files, and in the environment if they have our prefix."""

import difflib
import os
import re
from collections.abc import Collection, Iterator

from jobauto_prefect.monitoring.finding import Finding
from jobauto_prefect.settings import Settings
from jobauto_prefect.variables import config_files, stored_variables

OURS = ("JOBAUTO_", "DB_", "PREFECT_")
OTHERS_READ = frozenset({"JOBAUTO_CONFIG_DIR", "JOBAUTO_TOKEN", "JOBAUTO_READY_FD"})
"""Variables read by commands and parts in addition to the settings."""

_PASSED_ON = re.compile(
    r"PREFECT__|PREFECT_REDIS_|PREFECT_LOGGING_(FILTERS|FORMATTERS|HANDLERS|LOGGERS|ROOT)_"
)
"""Variables that Prefect sets for its own processes, those of prefect-redis, and those that Prefect
uses in its logging configuration."""


def setting_names() -> frozenset[str]:
    """Return the names of this program's settings."""
    fields = Settings.model_fields.items()
    return frozenset(
        str(field.validation_alias or f"JOBAUTO_{name.upper()}") for name, field in fields
    )


def unread_names(prefect_names: Collection[str] | None = None) -> Iterator[str]:
    """Yield a sentence for each unknown name, with the nearest known one.

    `prefect_names`: None if Prefect is not imported; then names of its settings are accepted.
    """
    known, stored = setting_names().union(prefect_names or ()), set[str]()
    ours = OURS if prefect_names is not None else OURS[:2]
    for file in config_files():
        for name in stored_variables(file):
            stored.add(name)
            if prefect_names is None and name.startswith("PREFECT_"):
                continue
            if name.upper() not in known and not _PASSED_ON.match(name):
                yield _describe(name, str(file), known)
    known |= OTHERS_READ
    for name in sorted(os.environ.keys() - stored):
        if name.startswith(ours) and name not in known and not _PASSED_ON.match(name):
            yield _describe(name, "the environment", known)


def _describe(name: str, where: str, known: frozenset[str]) -> str:
    nearest = difflib.get_close_matches(name.upper(), sorted(known), 1)
    advice = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"{name} in {where} is unknown{advice}"


def setting_findings() -> list[Finding]:
    """Report unknown names."""
    from jobauto_prefect.engine.prefect_server.process import prefect_names

    help_ = "correct or remove it (docs/settings.md)"
    found = [
        Finding("settings", "warning", message, help_) for message in unread_names(prefect_names())
    ]
    return found or [Finding("settings", "ok", "all names are known")]
