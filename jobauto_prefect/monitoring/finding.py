"""The result of a check of an installation."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

SET_CLOCKS = "let chrony or ntpd set the clocks of all machines"
"""What helps against clocks that differ."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. `wrong` keeps jobs from running; `unknown` was not checked."""

    name: str
    status: Literal["ok", "warning", "wrong", "unknown"]
    message: str
    fix: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON."""
        return asdict(self)
