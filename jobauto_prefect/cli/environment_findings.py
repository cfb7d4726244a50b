"""Values that no job is given, because of the names they have."""

import shlex
from collections.abc import Iterator

from jobauto_prefect.cli.findings import Finding
from jobauto_prefect.definitions.environment_names import unsafe_reason
from jobauto_prefect.jobs.stored_names import IdleNames, idle_names
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings

NAME = "environment"
NOUNS = {"company": "company", "credential-type": "credential type", "rule": "event rule",
         "template": "run template"}  # fmt: skip
"""By the name of a record kind's commands."""


def environment_findings(settings: Settings, ledger: Ledger) -> list[Finding]:
    """One for each record with such values, and for each such name among the settings."""
    with ledger.reading() as session:
        found = [_of_record(record) for record in idle_names(session, settings.extra_env)]
    found += _of_settings(settings)
    return found or [Finding(NAME, "ok", "all values have names that jobs may be given")]


def _of_record(record: IdleNames) -> Finding:
    names = ", ".join(record.names)
    message = f"{NOUNS[record.group]} {record.title} has {names}: no job is given it"
    command = f"jobauto {record.group} set {shlex.quote(record.title)}"
    if record.group in ("company", "template"):
        unset = " ".join(f"--unset {shlex.quote(name)}" for name in record.names)
        return Finding(NAME, "warning", message, f"{command} {unset}; or declare it")
    member = "fields" if record.group == "credential-type" else "env_mapping"
    return Finding(NAME, "warning", message, f"{command} {member}=JSON without it; or declare it")


def _of_settings(settings: Settings) -> Iterator[Finding]:
    for name in settings.extra_env:
        if reason := unsafe_reason(name):
            message = f"JOBAUTO_EXTRA_ENV has {name}, which {reason}: no job is given it"
            yield Finding(NAME, "warning", message, "take it from JOBAUTO_EXTRA_ENV")
