"""The document as a file."""

import json

from jobauto_prefect.facade.openapi.document import document


def published() -> str:
    """The text of `api/openapi.json`."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"
