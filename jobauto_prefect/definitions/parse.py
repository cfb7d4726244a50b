"""Conversion of a valid document to a `Definition`."""

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from jobauto_prefect.definitions.kubernetes_section import parse_kubernetes
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
from jobauto_prefect.definitions.values import to_text

KEPT, LONG_KEPT = 256, 4
"""Number of texts in a cache, and of those longer than `LONG`: what is read from one takes several
times its length."""

LONG = 50_000  # characters

T = TypeVar("T")

LONGEST_EXIT_CODE = 10  # digits; no process can return a longer number


def cache_by_text(read: Callable[..., T]) -> Callable[..., T]:
    """Cache what a function reads from texts of definitions, and few of the long ones."""
    kept, long_kept = (functools.lru_cache(maxsize=size)(read) for size in (KEPT, LONG_KEPT))

    def cached(text: str, *others: str) -> T:
        return (kept if len(text) <= LONG else long_kept)(text, *others)

    return cached


def parse(document: Mapping[str, Any]) -> Definition:
    """Parse a document that `validate` found valid; others may raise any error."""
    events = document.get("events", {})
    return Definition(
        document=document,
        name=document["name"],
        description=document["description"],
        executable=document["executable"],
        title=document.get("title", ""),
        command_template=document.get("cmdparamsTemplate", ""),
        environment={
            key: Variable(
                key=key,
                type=VariableType(raw.get("type", "string")),
                category=raw.get("category"),
                description=raw.get("description", ""),
                hint=raw.get("hint", ""),
                default=raw.get("defval"),
                required=raw.get("required", False),
                options=tuple(options(raw.get("options", ()))),
            )
            for key, raw in document["environment"].items()
        },
        artifacts=tuple(
            ArtifactDeclaration(
                name=pick_text(raw["name"]),
                path=raw["path"],
                type=raw["type"],
                description=raw.get("description", ""),
            )
            for raw in document.get("artifacts", ())
        ),
        exit_codes=parse_exit_codes(document.get("exitCodes", {})),
        uuid=document.get("uuid"),
        version=document.get("version"),
        category=document.get("category"),
        homepage=document.get("homepage"),
        license=document.get("license"),
        tags=tuple(document.get("tags", ())),
        requirements=tuple(document.get("requirements", ())),
        oci_image=document.get("ociimage"),
        kubernetes=parse_kubernetes(document.get("kubernetes", {})),
        produces=document.get("produces", {}),
        consumes=document.get("consumes", {}),
        emits=events.get("emits", {}),
        triggers=events.get("consumes", {}),
    )


@cache_by_text
def parse_text(document: str) -> Definition:
    """Parse the JSON text of a document like `parse`; the same text only once."""
    return parse(json.loads(document))


def options(raw: Mapping[str, Any] | list[Any]) -> Iterator[Option]:
    """Yield options: an object maps values to labels; an array lists values, or has `value`s."""
    if isinstance(raw, Mapping):
        for value, label in raw.items():
            yield Option(value, _label(label))
        return
    for item in raw:
        if isinstance(item, Mapping) and "value" in item:
            value = to_text(item["value"])
            yield Option(value, _label(item.get("label", value)))
        else:
            yield Option(to_text(item), to_text(item))


def _label(raw: Any) -> Localized:
    if raw and isinstance(raw, Mapping) and all(isinstance(text, str) for text in raw.values()):
        return raw
    return to_text(raw)


def parse_exit_codes(raw: Mapping[str, Mapping[str, Any]]) -> dict[int, ExitCode]:
    codes = {}
    for key, entry in raw.items():
        digits = key.lstrip("0") or "0"
        if len(digits) <= LONGEST_EXIT_CODE:
            code = int(digits)
            codes[code] = ExitCode(
                code=code,
                description=entry["description"],
                severity=Severity(entry.get("severity", "error")),
                retry=entry.get("retry", False),
            )
    return codes
