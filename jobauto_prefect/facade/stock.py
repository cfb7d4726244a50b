"""The credential types that are there after the first start."""

import json
from importlib.resources import files
from typing import Any

from jobauto_prefect.facade.auth import Identity
from jobauto_prefect.facade.permissions import EVERYTHING
from jobauto_prefect.facade.writes.base import Write
from jobauto_prefect.facade.writes.credential_types import write_credential_type
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import App, CredentialType, Fact
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings

FACT = "stock_credential_types"
"""That it was decided whether this ledger gets them; they come once, or never."""


def stock_types() -> list[dict[str, Any]]:
    """The bodies of the types that this version brings."""
    packaged = files("jobauto_prefect.definitions") / "stock_credential_types.json"
    found: list[dict[str, Any]] = json.loads(packaged.read_text())
    return found


def add_stock_types(ledger: Ledger, settings: Settings) -> bool:
    """Make the stock types where the ledger is new; True: they were made now.

    A ledger that is in use gets none by itself: `jobauto credential-type import` takes them.

    Raises:
        Conflict: somebody else makes them at the same time.
    """
    with ledger.reading() as session:
        if session.get(Fact, FACT) is not None:
            return False
    with ledger.writing(SERVICE) as session:
        is_new = not any(queries.newest(session, kind, limit=1) for kind in (App, CredentialType))
        session.add(Fact(name=FACT, value="made" if is_new else "left out"))
        for fields in stock_types() if is_new else ():
            who = Identity(SERVICE, EVERYTHING)
            write = Write(session, ledger.box, settings, who, fields)
            write_credential_type(write).record.stock = True
    return is_new
