"""The credential types that are there after the first start."""

import json
from importlib.resources import files
from typing import Any

from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.auth.permissions import EVERYTHING
from jobauto_prefect.facade.kinds.credential_types import write_credential_type
from jobauto_prefect.facade.writes.base import WriteRequest
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.queries.lookup import newest_records
from jobauto_prefect.ledger.records import App, CredentialType, InstallationValue
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings

STOCK_DECISION = "stock_credential_types"
"""That it was decided whether this ledger gets them; they come once, or never."""


def load_stock_types() -> list[dict[str, Any]]:
    """Return the bodies of the types that this version brings."""
    packaged = files("jobauto_prefect.definitions") / "stock_credential_types.json"
    types: list[dict[str, Any]] = json.loads(packaged.read_text())
    return types


def add_stock_types(ledger: Ledger, settings: Settings) -> bool:
    """Make the stock types where the ledger is new; return whether they were made now.

    A ledger that is in use gets none by itself: `jobauto credential-type import` takes them.

    Raises:
        Conflict: somebody else makes them at the same time.
    """
    with ledger.reading() as session:
        if session.get(InstallationValue, STOCK_DECISION) is not None:
            return False
    with ledger.writing(SERVICE) as session:
        is_new = not any(newest_records(session, kind, limit=1) for kind in (App, CredentialType))
        session.add(InstallationValue(name=STOCK_DECISION, value="made" if is_new else "left out"))
        for fields in load_stock_types() if is_new else ():
            who = Identity(SERVICE, EVERYTHING)
            write = WriteRequest(session, ledger.box, settings, who, fields)
            write_credential_type(write).record.stock = True
    return is_new
