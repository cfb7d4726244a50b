"""The loops of a process, and whether they are running. Pure; times are monotonic."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

STUCK_SECONDS = 120.0
"""How long one round of a loop may take until the loop counts as stuck."""


@dataclass(slots=True)
class Loop:
    """One loop. `began` is the start of its current round; None: it is waiting for the next."""

    rounds: int = 0
    failures: int = 0
    began: float | None = None

    @contextlib.contextmanager
    def round(self) -> Iterator[None]:
        """Run one round; count and raise an error."""
        self.began = time.monotonic()
        try:
            yield
        except Exception:
            self.failures += 1
            raise
        finally:
            self.rounds += 1
            self.began = None

    @property
    def running_seconds(self) -> float:
        """How long the current round has taken, or 0 between rounds."""
        return 0.0 if self.began is None else time.monotonic() - self.began


@dataclass(slots=True)
class Loops:
    """All loops of a process, by name."""

    by_name: dict[str, Loop] = field(default_factory=dict)

    def loop(self, name: str) -> Loop:
        """Return the loop of this name, created on first use."""
        return self.by_name.setdefault(name, Loop())

    def stuck(self) -> list[str]:
        """Return the names of those whose round has taken too long."""
        return [name for name, loop in self.by_name.items() if loop.running_seconds > STUCK_SECONDS]
