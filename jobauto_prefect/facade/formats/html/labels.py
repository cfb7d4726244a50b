"""What fields are called on pages."""

import re

from jobauto_prefect.facade.formats.record_links import find_referenced_kind

_LABELS = {
    "id": "ID",
    "ic": "Registration number",
    "uuid": "UUID",
    "url": "URL",
    "env": "Environment",
    "interv": "Interval",
    "stdout": "Standard output",
    "stderr": "Standard error",
    "exitcode": "Exit code",
    "firstname": "First name",
    "lastname": "Last name",
    "defval": "Default",
    "color": "Colour",
    "ociimage": "OCI image",
    "cmdparamsTemplate": "Command line",
    "prefect_url": "Prefect",
    "created_at": "Created",
    "updated_at": "Changed",
    "app_version": "Application version",
    "schedule": "Scheduled for",
    "begin": "Began",
    "end": "Ended",
    "launched_by": "Launched by",
    "fulfilled_by_job_id": "Fulfilled by",
    "runtemplate_source_id": "After run template",
    "executor": "Executor",
    "$schema": "Schema",
    "flow_run_id": "Flow run",
    "request_id": "Request",
}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def field_label(member: str) -> str:
    """Label a field: `window_start` → Window start, `app_id` → Application."""
    if member in _LABELS:
        return _LABELS[member]
    kind = find_referenced_kind(member)
    if kind is not None and kind.item == member.removesuffix("_id"):
        return kind.one
    words = _CAMEL.sub(" ", member).replace("_", " ").strip()
    return words[:1].upper() + words[1:].lower() if words else member
