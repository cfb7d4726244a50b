"""How controls write and read what definitions hold: JSON, texts in several languages, words."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jobauto_prefect.facade.console.records.text_forms import TextForm, lines_of

_LANGUAGE_LINE = re.compile(r"([a-z]{2}): ?(.*)")


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) if value else ""


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"this is no JSON: {error.msg}, {place}") from None
    except RecursionError:
        raise ValueError("this is no JSON of reasonable depth") from None


def _write_localized(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    if any("\n" in text for text in value.values()):
        return _write_json(value)
    return "\n".join(f"{language}: {text}" for language, text in value.items())


def _read_localized(text: str) -> Any:
    if text.lstrip().startswith("{"):
        return _read_json(text)
    matches = [_LANGUAGE_LINE.fullmatch(line) for line in lines_of(text)]
    if all(matches):
        return {match[1]: match[2] for match in matches if match}
    return text


def _write_words(words: Sequence[str]) -> str:
    return ", ".join(words)


def _read_words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


JSON = TextForm(_write_json, _read_json)
"""Any value."""

LOCALIZED = TextForm(_write_localized, _read_localized)
"""A text, or texts in several languages: each on its line, after `en: `."""

WORDS = TextForm(_write_words, _read_words)
"""A list of words with commas between them."""
