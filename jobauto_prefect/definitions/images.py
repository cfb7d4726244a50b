"""The picture of an application: whether its `image` can be shown."""

import re
from typing import Any

_AT_HOME = re.compile(
    r"data:image/(png|jpeg|gif|webp|svg\+xml)(;charset=[\w-]+)?;base64,[A-Za-z0-9+/]+={0,2}"
)
_ELSEWHERE = re.compile(r"https://[A-Za-z0-9.\[\]:-]+(/[^\s<>\"'()\\^`{|}]*)?")


def image_address(image: Any, longest: int = 1_000_000) -> str | None:
    """Return the address of an image if it is `data:` or `https:`; None if it can't be shown.

    `longest` is in characters.
    """
    if not isinstance(image, str) or len(image) > longest:
        return None
    shown = image.strip()
    return shown if _AT_HOME.fullmatch(shown) or _ELSEWHERE.fullmatch(shown) else None
