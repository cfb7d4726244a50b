"""The fields of an event source that determine where its password is sent."""

from collections.abc import Mapping
from typing import Any

ADDRESS_FIELDS = ("db_connection", "db_host", "db_port", "db_database", "db_username")
"""Fields of an event source that determine where its password is sent."""

USUAL_PORTS: Mapping[str, str] = {"mysql": "3306", "pgsql": "5432"}
"""By type of database; SQLite files have none."""


def changed_address_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the address fields of an event source that differ."""
    return [name for name in ADDRESS_FIELDS if str(before[name] or "") != str(after[name] or "")]
