"""Columns of which the database gives no more than so much, whatever is in them."""

from typing import Any

from sqlalchemy import ColumnElement, Text, TypeDecorator, case, cast, func


class BoundedText(TypeDecorator[str]):
    """Text whose beginning is read."""

    impl, cache_ok = Text, True

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return what is selected instead of the column."""
        return func.substr(column, 1, self.most)


def bound_text(column: ColumnElement[Any], most: int) -> None:
    """Have only the first characters of a column of text read."""
    column.type = BoundedText(most)


def bound_json(column: ColumnElement[Any], most: int) -> None:
    """Have nothing read of a column of JSON where that has more characters."""

    def shorter(_type: object, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return case((func.length(cast(column, Text)) <= most, column))

    former = type(column.type)
    bounded = type("BoundedJson", (former,), {"column_expression": shorter, "cache_ok": True})
    column.type = bounded()
