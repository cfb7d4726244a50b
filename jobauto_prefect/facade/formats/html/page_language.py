"""The words of pages in the languages there are: English in the code, the others in catalogs.

A catalog maps each English text to its translation; `{…}` in both are filled in alike.
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
        """Return an English text in the language, with its values; unknown texts stay English."""


class Text(str):
    """An English text of ours that is translated where it is shown, with its values filled in.

    Texts that records bring along are no such texts.
    """

    def __new__(cls, text: str, **_values: object) -> "Text":
        return super().__new__(cls, text)

    def __init__(self, _text: str, **values: object) -> None:
        self.values = values


class Shown:
    """What pages and forms call a field of a record, with a hint for those who fill it in.

    `control` is how it is filled in, where its type does not say so; `choices` are what its values
    are called, where people do not know them.
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
    """Return a text of ours in the translator's language, any other as it is."""
    return translate(text, **text.values) if isinstance(text, Text) else text


@cache
def translator(language: str) -> Translator:
    """Return what translates into a language of `LANGUAGES`."""
    catalog = load_catalog(language)

    def translate(text: str, /, **values: object) -> str:
        translated = catalog.get(text, text)
        return translated.format(**values) if values else translated

    return translate


def load_catalog(language: str) -> Mapping[str, str]:
    """Load the translations of a language by their English texts; English has none.

    A language is a folder; its files are by subject.
    """
    if language == DEFAULT_LANGUAGE:
        return {}
    catalog: dict[str, str] = {}
    for file in (resources.files(__package__) / "translations" / language).iterdir():
        catalog |= json.loads(file.read_text("utf-8"))
    return catalog


def choose_page_language(languages: Sequence[str]) -> str:
    """Return the first of these languages that pages have; `cs-CZ` is `cs`."""
    codes = (language.partition("-")[0].lower() for language in languages)
    return next((code for code in codes if code in LANGUAGES), DEFAULT_LANGUAGE)
