"""The credential types created at the first start."""

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
"""Marks that this ledger's stock types were decided on; they are created once, or never."""


def load_stock_types() -> list[dict[str, Any]]:
    """Return the bodies of this version's types."""
    packaged = files("jobauto_prefect.definitions") / "stock_credential_types.json"
    types: list[dict[str, Any]] = json.loads(packaged.read_text())
    return types


def add_stock_types(ledger: Ledger, settings: Settings) -> bool:
    """Create the stock types in a new ledger; return whether they were created now.

    A ledger in use gets none automatically: `jobauto credential-type import` imports them.

    Raises:
        Conflict: somebody else creates them at the same time.
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
