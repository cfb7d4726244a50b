"""The published dialect: what programs written for the reference service send and expect.

A serialiser and a table: routes, rules and records are those of the contract.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from jobauto_prefect.errors import OtherId
from jobauto_prefect.facade.dialect import Dialect, Members
from jobauto_prefect.facade.published.applications import FLAT, flat
from jobauto_prefect.facade.published.inputs import hear
from jobauto_prefect.facade.published.others import OTHERS
from jobauto_prefect.facade.published.table import ACTIONS, SHAPES
from jobauto_prefect.facade.rendering import View
from jobauto_prefect.facade.spellings import as_integer
from jobauto_prefect.ledger.listing import Condition

__all__ = ["MEMBERS", "PREFIXES", "published"]

PREFIX = "/VitexSoftware/MultiFlexi/1.0.0"
PREFIXES = (f"/api{PREFIX}", PREFIX)
"""Where it is spoken; one client has the second built in."""

MEMBERS: Mapping[str, Collection[str]] = {
    **{item: tuple(shape.members) for item, shape in SHAPES.items()},
    "app": FLAT,
}
"""The members that records have in the dialect, by record kind."""

BY_ID = frozenset({"list apps", "list jobs", "list runtemplates"})
"""Lists that are objects; the others are arrays."""

ONLY: Mapping[str, Condition] = {"auditlog": Condition("action", ACTIONS, "in")}
ORDERS: Mapping[str, str] = {"DatCreate": "created_at", "DatUpdate": "updated_at"}


def published(language: str) -> Dialect:
    """The dialect, with texts in a language."""

    def show(item: str, shown: Members) -> Members:
        if item == "app":
            return flat(shown, language)
        return SHAPES[item].of(shown) if item in SHAPES else shown

    def translated(route: str, view: View, asked: Mapping[str, Any]) -> View:
        if not view.item:
            return OTHERS[route](view, asked) if route in OTHERS else view
        if not view.is_list:
            return replace(view, data=show(view.item, view.data))
        data = {key: show(view.item, one) for key, one in view.data.items()}
        return replace(view, data=data, columns=(), as_array=arrays(route))

    return Dialect(
        hear=hear,
        member=member,
        only=ONLY.get,
        show=show,
        arrays=arrays,
        counts_work=True,
        view=translated,
        error=error,
    )


def arrays(route: str) -> bool:
    """Whether a list is an array."""
    return route not in BY_ID


def member(item: str, name: str) -> str:
    """Our name of a member."""
    return SHAPES[item].ours(name) if item in SHAPES else ORDERS.get(name, name)


def error(failure: Exception | None, body: Members) -> Members:
    """What clients of this dialect look for in an error, beside ours."""
    said = body | {"success": False}
    if isinstance(failure, OtherId):
        said |= {
            "error": "ID mismatch",
            "expected": failure.expected,
            "received": _number(failure.received),
        }
    return said


def _number(value: Any) -> int | None:
    try:
        return as_integer(value)
    except ValueError:
        return None
