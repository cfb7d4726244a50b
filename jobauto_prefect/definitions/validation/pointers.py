"""JSON pointers (RFC 6901)."""

from collections.abc import Iterable


def child(pointer: str, step: str | int) -> str:
    """Return the pointer of a key or an item below `pointer`."""
    return f"{pointer}/{str(step).replace('~', '~0').replace('/', '~1')}"


def join(steps: Iterable[str | int]) -> str:
    """Return the pointer of a path from the root; no steps are the root, the empty string."""
    pointer = ""
    for step in steps:
        pointer = child(pointer, step)
    return pointer
