"""The texts of pages in all languages: English in the code, the others in catalogs.

A catalog maps each English text to its translation; both have the same `{…}` placeholders.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Protocol

DEFAULT_LANGUAGE = "en"
LANGUAGES = (DEFAULT_LANGUAGE, "cs")


class Translator(Protocol):
    """Translates into one language."""

    def __call__(self, text: str, /, **values: object) -> str:
        """Translate an English text and fill in its values; unknown texts stay English."""


class Text(str):
    """An English text that is translated, and its values filled in, when it is shown.

    Texts from records are not translated.
    """

    def __new__(cls, text: str, **_values: object) -> "Text":
        return super().__new__(cls, text)

    def __init__(self, _text: str, **values: object) -> None:
        self.values = values


class Shown:
    """The label of a field on pages and forms, with a hint for filling it in.

    `control` is its form control if the type does not decide it; `choices` are labels of values
    whose meaning is not obvious.
    """

    def __init__(
        self,
        label: str,
        hint: str = "",
        control: str = "",
        choices: Mapping[str, str] | None = None,
        **values: object,
    ) -> None:
        self.label = Text(label)
        self.hint = Text(hint, **values) if hint else ""
        self.control = control
        self.choices = choices or {}


def tell(text: str, translate: Translator) -> str:
    """Translate a `Text`; return any other text unchanged."""
    return translate(text, **text.values) if isinstance(text, Text) else text


@cache
def translator(language: str) -> Translator:
    """Return the translator into one of `LANGUAGES`."""
    catalog = load_catalog(language)

    def translate(text: str, /, **values: object) -> str:
        translated = catalog.get(text, text)
        return translated.format(**values) if values else translated

    return translate


def load_catalog(language: str) -> Mapping[str, str]:
    """Load a language's translations, keyed by the English text; English has none.

    A language is a folder; its files are by subject.
    """
    if language == DEFAULT_LANGUAGE:
        return {}
    catalog: dict[str, str] = {}
    for file in (resources.files(__package__) / "translations" / language).iterdir():
        catalog |= json.loads(file.read_text("utf-8"))
    return catalog


def choose_page_language(languages: Sequence[str]) -> str:
    """Return the first of these languages that pages support; `cs-CZ` is `cs`."""
    codes = (language.partition("-")[0].lower() for language in languages)
    return next((code for code in codes if code in LANGUAGES), DEFAULT_LANGUAGE)
