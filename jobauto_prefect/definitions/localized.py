"""Texts in several languages."""

from jobauto_prefect.definitions.model import Localized

# Browsers ask for the two written forms of Norwegian; the format has one code.
_SAME = {"nb": "no", "nn": "no"}


def pick_text(localized: Localized, *languages: str) -> str:
    """Return the text in the first language it has, such as `cs`, `cs-CZ`, `cs_CZ.UTF-8`.

    Each counts for its base too (`cs-CZ` for `cs`). Where it has none of them: English, then the
    first text in the document's order. An empty text counts as none.
    """
    if isinstance(localized, str):
        return localized
    for language in (*languages, "en"):
        asked = language.partition(".")[0].replace("_", "-").lower()
        base = asked.partition("-")[0]
        for code in (asked, base, _SAME.get(base, base)):
            if localized.get(code):
                return localized[code]
    return next((each for each in localized.values() if each), "")
