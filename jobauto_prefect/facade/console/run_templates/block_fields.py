"""Blocks of other people in Prefect: which of their fields become variables of a run template."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobauto_prefect.facade.console.records.form_fields import FieldGroup, FormField
from jobauto_prefect.facade.console.records.text_forms import ASSIGNMENTS, TextForm
from jobauto_prefect.facade.formats.html.page_language import Translator


def _write(blocks: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(
        f"{variable}={block['block']}/{field}"
        for block in blocks
        for variable, field in block["env"].items()
    )


def _read(text: str) -> list[dict[str, Any]]:
    env: dict[str, dict[str, str]] = {}
    for variable, place in ASSIGNMENTS.read(text).items():
        parts = place.split("/", 2)
        if len(parts) < 3:
            raise ValueError(f"write type/name/field instead of {place!r}")
        env.setdefault("/".join(parts[:2]), {})[variable] = parts[2]
    return [{"block": block, "env": variables} for block, variables in env.items()]


def block_group(translate: Translator) -> FieldGroup:
    """Return the field of the blocks."""
    field = FormField(
        "/blocks",
        translate("Values from blocks"),
        "long",
        translate(
            "One a line: VARIABLE=type/name/field, such as DB_PASSWORD=secret/acme-db/value; "
            "a.b is the field b of a."
        ),
        form=TextForm(_write, _read),
        blank=[],
    )
    return FieldGroup(translate("Blocks of Prefect"), [field], is_folded=True)
