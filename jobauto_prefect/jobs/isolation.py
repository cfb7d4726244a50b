"""Loops over items in which a fault of one item does not hold up the others."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from jobauto_prefect.definitions.storable import storable_text
from jobauto_prefect.errors import JobautoError, Locked, Unavailable

Item = TypeVar("Item")

logger = logging.getLogger(__name__)

CONCERNS_ALL = (Unavailable, Locked)
"""Errors that no single item causes: the others would fail too, and all are retried."""


@contextlib.contextmanager
def apart(item: str, put_aside: Callable[[str], object] | None = None) -> Iterator[None]:
    """Isolate the faults of one item: they are logged with the item's name.

    `put_aside` is called with the reason, outside the failed block.

    Raises:
        JobautoError: an error that concerns all items.
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
    """Work on all items together; on failure split them, until the faulty ones are put aside.

    Returns:
        The items that were put aside.

    Raises:
        JobautoError: an error that concerns all items.
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
