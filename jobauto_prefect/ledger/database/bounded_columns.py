"""Columns of which the database returns a limited amount, whatever they contain."""

from typing import Any

from sqlalchemy import ColumnElement, Text, TypeDecorator, case, cast, func


class BoundedText(TypeDecorator[str]):
    """Text of which only the beginning is read."""

    impl, cache_ok = Text, True

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the expression that is selected in place of the column."""
        return func.substr(column, 1, self.most)


def bound_text(column: ColumnElement[Any], most: int) -> None:
    """Read only the first characters of a text column."""
    column.type = BoundedText(most)


def bound_json(column: ColumnElement[Any], most: int) -> None:
    """Read nothing from a JSON column that has more characters."""

    def shorter(_type: object, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return case((func.length(cast(column, Text)) <= most, column))

    former = type(column.type)
    bounded = type("BoundedJson", (former,), {"column_expression": shorter, "cache_ok": True})
    column.type = bounded()
