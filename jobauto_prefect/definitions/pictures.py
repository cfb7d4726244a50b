"""The picture of an application: what of `image` can be shown to people."""

import re
from typing import Any

_AT_HOME = re.compile(
    r"data:image/(png|jpeg|gif|webp|svg\+xml)(;charset=[\w-]+)?;base64,[A-Za-z0-9+/]+={0,2}"
)
_ELSEWHERE = re.compile(r"https://[A-Za-z0-9.\[\]:-]+(/[^\s<>\"'()\\^`{|}]*)?")


def picture_of(image: Any, longest: int = 1_000_000) -> str | None:
    """The address of a picture that is a `data:` or `https:` address; None: nothing to show.

    `longest` is in characters.
    """
    if not isinstance(image, str) or len(image) > longest:
        return None
    shown = image.strip()
    return shown if _AT_HOME.fullmatch(shown) or _ELSEWHERE.fullmatch(shown) else None
