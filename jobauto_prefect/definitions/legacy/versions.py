"""Version numbers."""

import re


def version_numbers(version: str) -> tuple[int, ...] | None:
    """Return `3.4.0` as numbers that compare, without trailing zeros; None for other texts."""
    if not re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,9}", version):
        return None
    numbers = [int(part) for part in version.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
