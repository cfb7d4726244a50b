"""Loops over items: what goes wrong with one of them keeps no other waiting."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from jobauto_prefect.definitions.storable import storable_text
from jobauto_prefect.errors import JobautoError, Locked, Unavailable

Item = TypeVar("Item")

logger = logging.getLogger(__name__)

CONCERNS_ALL = (Unavailable, Locked)
"""What is no item's own fault: the others would fail as well, and all come again."""


@contextlib.contextmanager
def apart(item: str, put_aside: Callable[[str], object] | None = None) -> Iterator[None]:
    """Keep what goes wrong with one item from the others: it is logged with the item's name.

    `put_aside` is called with the reason, outside of what failed.

    Raises:
        JobautoError: what concerns all items.
    """
    try:
        yield
    except CONCERNS_ALL:
        raise
    except Exception as error:
        if isinstance(error, JobautoError):
            reason = storable_text(str(error))
            logger.warning("%s is put aside: %s", item, reason)
        else:
            reason = "an error in this program; see the log of jobauto services"
            logger.exception("%s is put aside", item)
        if put_aside is not None:
            put_aside(reason)


async def by_halves(
    items: Sequence[Item],
    work: Callable[[Sequence[Item]], Awaitable[object]],
    name: Callable[[Item], str],
) -> list[Item]:
    """Work on items together; where that fails, on halves, until the one to blame is put aside.

    Returns:
        Those that were put aside.

    Raises:
        JobautoError: what concerns all items.
    """
    try:
        await work(items)
    except CONCERNS_ALL:
        raise
    except Exception:
        if len(items) > 1:
            half = len(items) // 2
            first = await by_halves(items[:half], work, name)
            return first + await by_halves(items[half:], work, name)
        with apart(name(items[0])):
            raise
        return [*items]
    return []
