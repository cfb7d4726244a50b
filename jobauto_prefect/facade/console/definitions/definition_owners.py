"""Definitions that are shared or one company's: whose they are, and who changes them."""

from collections.abc import Mapping
from typing import Any

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.records.page_parts import link
from jobauto_prefect.facade.console.records.record_views import require
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Translator

CREATE, UPDATE = "applications.create", "applications.update"

SHARED: Mapping[str, Any] = {"company_id": None}
"""What a body says of a definition that belongs to no company."""

Record = Mapping[str, Any]


def may_create(who: Identity) -> bool:
    """Whether somebody may make a definition: a shared one, or one of some company."""
    return who.rights.anywhere(CREATE)


def may_update(who: Identity, record: Record) -> bool:
    """Whether somebody may change a definition."""
    return who.rights.may(UPDATE, record["company_id"])


def may_rename(who: Identity) -> bool:
    """Whether somebody may change what tells definitions apart: their names and codes."""
    return who.rights.may(UPDATE, None)


def require_creator(who: Identity) -> None:
    """Require somebody who may make a definition.

    Raises:
        ContractError: they may make none.
    """
    if not may_create(who):
        require(who, CREATE, None)


def require_editor(who: Identity, record: Record) -> None:
    """Require somebody who may change a definition.

    Raises:
        ContractError: they may not.
    """
    require(who, UPDATE, record["company_id"])


def owner_cell(record: Record, view: View, translate: Translator) -> Cell:
    """Return whose a definition is."""
    number = record["company_id"]
    if number is None:
        return Cell("text", translate("shared by all"))
    name = view.names.get("company", {}).get(str(number), f"#{number}")
    return link(name, f"{CONSOLE}/companies/{number}")
