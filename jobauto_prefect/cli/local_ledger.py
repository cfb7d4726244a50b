"""This machine's own ledger, for commands that bypass the REST contract."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobauto_prefect.ledger.audit.trail import Actor
    from jobauto_prefect.ledger.store import Ledger


@contextlib.contextmanager
def open_local_ledger() -> "Iterator[Ledger]":
    """Open this machine's ledger.

    Raises:
        NotReady: it lacks its key or its tables; the message says what to do.
    """
    from jobauto_prefect.ledger.opening import open_ledger
    from jobauto_prefect.settings import load_settings

    ledger = open_ledger(load_settings())
    try:
        yield ledger
    finally:
        ledger.close()


def local_actor() -> "Actor":
    """Return the audit trail's actor: the user of this command line."""
    from jobauto_prefect.ledger.audit.trail import Actor
    from jobauto_prefect.settings import local_operator

    return Actor(name=local_operator(), door="cli")
