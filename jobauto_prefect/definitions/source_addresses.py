"""To whom the password of an event source is told."""

from collections.abc import Mapping
from typing import Any

SOURCE_ADDRESS = ("db_connection", "db_host", "db_port", "db_database", "db_username")
"""Members of an event source that say to whom its password is told."""


def moved_source(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The members of the address of an event source that differ."""
    return [name for name in SOURCE_ADDRESS if str(before[name] or "") != str(after[name] or "")]
