"""CSV: lists for spreadsheets."""

import csv
import io
from typing import Any

from jobauto_prefect.facade.formats.json_yaml import Record, dump_json, list_records
from jobauto_prefect.facade.formats.view import View

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the start of a formula."""


def render_csv(view: View) -> bytes:
    """Return a header line and a line per record (RFC 4180), nested values as JSON.

    Text that a spreadsheet would run as a formula is prefixed with an apostrophe.
    """
    records = [record for _, record in list_records(view)]
    columns = list(view.columns) or scalar_fields(records) or ["id"]
    target = io.StringIO(newline="")
    writer = csv.writer(target)
    writer.writerow([_format_value(name) for name in columns])
    writer.writerows([_format_value(record.get(name)) for name in columns] for record in records)
    return target.getvalue().encode()


def scalar_fields(records: list[Record]) -> list[str]:
    """Return the fields that hold no object or array in any record, in order of appearance."""
    nested: dict[str, bool] = {}
    for record in records:
        for name, value in record.items():
            nested[name] = nested.get(name, False) or isinstance(value, dict | list)
    return [name for name, is_nested in nested.items() if not is_nested]


def _format_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return dump_json(value)
