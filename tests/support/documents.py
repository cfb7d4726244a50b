"""Documents that the tests of definitions start from, and any JSON at all."""

import copy
from typing import Any

from hypothesis import strategies as st

SMALLEST: dict[str, Any] = {
    "$schema": "https://example.org/application.json",
    "name": "Smallest",
    "description": "Nothing more than is required",
    "executable": "true",
    "environment": {},
}

RICHEST: dict[str, Any] = {
    **SMALLEST,
    "image": "icon.svg",
    "title": {"en": "Rich", "cs": "Bohatá"},
    "name": {"cs": "Všechno"},
    "author": "A. Author",
    "license": "MIT",
    "category": "Test",
    "tags": ["one", "two"],
    "homepage": "https://example.org/rich?a=b#c",
    "uuid": "775ED801-2489-4981-bc14-d8a01cba1938",
    "version": "1.20.0.3",
    "schemaVersion": "3.4.0",
    "ociimage": "docker.io/owner/rich:1.0",
    "cmdparamsTemplate": "--level ${LEVEL}",
    "environment": {
        "LEVEL": {
            "type": "set",
            "category": "Behavior",
            "description": {"en": "How much"},
            "hint": "low is enough",
            "defval": "low",
            "required": True,
            "options": {"low": "Low", "high": "High"},
            "own": {"anything": [1]},
        },
        "1FOO": {"type": "integer", "defval": 1, "options": [1, 2]},
        "_": {},
    },
    "artifacts": [
        {"name": {"en": "Report"}, "path": "r.json", "type": "file", "description": "What it did"}
    ],
    "produces": {
        "report-1": {
            "description": "The report",
            "patterns": ["*.json"],
            "format": "json",
            "fields": {"total_sum": {"type": "float", "description": "Sum", "path": "$.a"}},
        }
    },
    "consumes": {
        "input": {
            "description": {"de": "Eingabe"},
            "required": False,
            "format": "file",
            "target": "LEVEL",
            "fields": {"line": {"target": "LEVEL", "format": "integer"}},
        }
    },
    "events": {
        "emits": {
            "rich.done": {"description": "Done", "evidence": "report", "operation": "any", "x": 1}
        },
        "consumes": {"rich.wanted": {"description": "Go", "format": "text", "x": 1}},
    },
    "exitCodes": {
        "0": {"description": "Fine", "severity": "success", "retry": False},
        "75": {"description": {"en": "Later"}, "retry": True},
    },
    "kubernetes": {
        "helm": {
            "enabled": True,
            "releaseName": "rich-1",
            "namespace": "default",
            "chart": "oci://registry.example.org/charts/rich:1.0",
            "valuesFiles": ["values.yaml"],
            "set": {"replicas": 1, "name": "x", "on": True, "share": 0.5},
            "upgradeInstall": False,
            "timeoutSeconds": 3600,
            "atomic": True,
            "wait": False,
        },
        "artifacts": {"enabled": True, "outputPath": "/out", "keepPodOnFailure": True},
    },
    "requirements": ["Database"],
    "repository": "members of one's own are allowed at the top",
}


def smallest(**members: Any) -> dict[str, Any]:
    """The smallest valid document, with these members besides or instead."""
    return copy.deepcopy(SMALLEST) | members


def with_variable(key: str = "KEY", **members: Any) -> dict[str, Any]:
    """The smallest valid document with one environment key."""
    return smallest(environment={key: members})


JSON_SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON_DOCUMENTS = st.recursive(
    JSON_SCALARS,
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3)
    ),
    max_leaves=8,
)
