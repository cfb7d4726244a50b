"""Names of flow runs that were made ahead; workers read them, and hold nothing of the ledger."""

import re

_WINDOW = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}")


def is_window_name(name: str, title: str) -> bool:
    """Whether a flow run was named ahead, for a window of the run template of a launch's title."""
    lead = f"{title.rpartition(' #')[0]} "
    return name.startswith(lead) and _WINDOW.fullmatch(name, len(lead)) is not None
