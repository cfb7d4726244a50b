"""The result of one check of an installation."""

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. `wrong` keeps jobs from running; `unknown`: it was not looked at."""

    name: str
    status: Literal["ok", "warning", "wrong", "unknown"]
    message: str
    fix: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON."""
        return asdict(self)
