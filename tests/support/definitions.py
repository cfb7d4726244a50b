"""Definitions for tests."""

from typing import Any

PROBE: dict[str, Any] = {
    "$schema": "https://example.com/application.schema.json",
    "uuid": "6a2c6d4e-30e4-4f6b-9d6e-7c8ad9f2b001",
    "name": {"en": "Probe", "cs": "Sonda"},
    "description": "Shows what it was given",
    "version": "1.0",
    "executable": "probe",
    "cmdparamsTemplate": "--greeting ${GREETING} {TARGET}",
    "environment": {
        "GREETING": {"type": "string", "defval": "hello", "description": "What to say"},
        "TARGET": {"type": "string", "defval": "{COMPANY_TOWN}"},
        "COUNT": {"type": "integer", "defval": "3", "required": True},
        "LOUD": {"type": "bool", "defval": False},
        "PASSWORD": {"type": "password", "required": False},
        "RESULT_FILE": {"type": "string", "defval": "result.json"},
        "COMPANY_TOWN": {"type": "string", "defval": "Prague"},
    },
    "exitCodes": {
        "0": {"description": "All went well", "severity": "success"},
        "2": {"description": {"en": "Half done"}, "severity": "warning"},
        "5": {"description": "Came to nothing", "severity": "critical"},
        "8": {"description": "Busy", "retry": True},
        "9": {"description": "No severity said"},
    },
    "artifacts": [{"name": "Result", "path": "result.json", "type": "file"}],
}
"""A definition that uses what definitions have."""
