"""What the files a job left say, for people: the plain values of small JSON objects."""

import json
from collections.abc import Mapping

from jobauto_prefect.runtime.artifacts import Artifact
from jobauto_prefect.runtime.masking import Masker

LARGEST_FILE = 64 * 1024  # bytes
MOST_VALUES = 50  # of one file
LONGEST_VALUE = 200  # characters


def plain_values(artifact: Artifact, masker: Masker) -> Mapping[str, str]:
    """The members of the JSON object a file holds that are neither objects nor lists, as text.

    Known secret values are masked. Empty for any other file.
    """
    members = _object_in(artifact.content)
    shown = [
        (masker.mask(name), masker.mask(value if isinstance(value, str) else json.dumps(value)))
        for name, value in members.items()
        if not isinstance(value, dict | list)
    ]
    return {_shortened(name): _shortened(value) for name, value in shown[:MOST_VALUES]}


def _object_in(content: bytes) -> Mapping[str, object]:
    if len(content) > LARGEST_FILE or not content.lstrip().startswith(b"{"):
        return {}
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _shortened(text: str) -> str:
    # PostgreSQL and Prefect take no NUL.
    text = text.replace("\0", "\ufffd")
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
