"""Which pictures are shown."""

import pytest

from jobauto_prefect.compiler.descriptions import describe_application
from jobauto_prefect.definitions import parse
from jobauto_prefect.definitions.images import image_address
from tests.support.definitions import PROBE

DOT = "data:image/gif;base64,R0lGODlhAQABAAAAACw="


@pytest.mark.parametrize(
    "image", [DOT, "https://example.com/a.png?b=1#c", " https://[::1]:8/x.svg "]
)
def test_pictures_of_the_web_and_in_the_document_are_shown(image: str) -> None:
    assert image_address(image) == image.strip()


@pytest.mark.parametrize(
    "image",
    [
        *("", "icon.svg", "http://example.com/a.png", "javascript:alert(1)", "file:///etc/passwd"),
        *("data:text/html;base64,PGI+", "https://a/b) [x](https://c", 'https://a/"onload="', None),
        *("https://user:pw@example.com/a.png", "https://a/\nb", 7, DOT + "A" * 2_000_000),
    ],
)
def test_nothing_else_is(image: object) -> None:
    assert image_address(image) is None


def test_a_description_shows_the_picture_under_the_title() -> None:
    shown = describe_application(parse({**PROBE, "name": "Pro[b]e", "image": DOT}), "en")
    assert shown.startswith(f"# Pro[b]e\n\n![Probe]({DOT})\n\n")
    assert "![" not in describe_application(parse({**PROBE, "image": DOT + "A" * 40_000}), "en")
