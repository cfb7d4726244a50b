"""What checks of an installation find."""

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found. `wrong` keeps jobs from running; `unknown`: it could not be looked at."""

    name: str
    status: Literal["ok", "warning", "wrong", "unknown"]
    message: str
    fix: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
