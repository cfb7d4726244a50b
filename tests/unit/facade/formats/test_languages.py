"""Texts in several languages, as pages show them."""

import pytest

from jobauto_prefect.facade.formats import View, parse_accept_language, render


@pytest.mark.parametrize(
    ("header", "languages"),
    [
        (None, ()),
        ("cs", ("cs",)),
        ("de-AT, cs;q=0.8, en;q=0.9, *;q=0.1", ("de-AT", "en", "cs")),
        ("fr;q=0, cs;q=x, ;q=1, de; q=0.5", ("de",)),
    ],
)
def test_a_browser_says_its_languages_by_weight(
    header: str | None, languages: tuple[str, ...]
) -> None:
    assert parse_accept_language(header) == languages


NAMES = {"en": "Probe", "cs": "Sonda", "de": "Sonde"}


@pytest.mark.parametrize(
    ("languages", "shown"),
    [((), "Probe"), (("fr", "de", "cs"), "Sonde"), (("cs-CZ",), "Sonda"), (("fr",), "Probe")],
)
def test_lists_show_texts_in_the_language_preferred(languages: tuple[str, ...], shown: str) -> None:
    view = View(
        "Applications",
        "app",
        {"1": {"id": 1, "name": NAMES}},
        is_list=True,
        columns=("id", "name"),
        languages=languages,
    )
    page = render("html", view)[0].decode()
    assert [name for name in NAMES.values() if f">{name}<" in page] == [shown]
