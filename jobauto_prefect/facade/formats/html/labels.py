"""Labels of fields on pages."""

import re
from collections.abc import Mapping

from jobauto_prefect.facade.formats.record_links import find_referenced_kind

_ABBREVIATIONS = frozenset({"id", "uri", "url", "uuid"})
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def field_label(name: str, titles: Mapping[str, str]) -> str:
    """Label a field by its title, else by its name: `window_start` → Window start, `app_id` →
    Application.
    """
    if name in titles:
        return titles[name]
    kind = find_referenced_kind(name)
    if kind is not None and kind.item == name.removesuffix("_id"):
        return kind.one
    words = _CAMEL.sub(" ", name).replace("_", " ").strip().lower()
    spelled = " ".join(word.upper() if word in _ABBREVIATIONS else word for word in words.split())
    return f"{spelled[:1].upper()}{spelled[1:]}" if spelled else name
