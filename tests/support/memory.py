"""What the parts of an installation hold in memory."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.breakable import Part


@dataclass(slots=True)
class Memory:
    """PSS of each part in MB, in the order of the looks."""

    parts: Mapping[str, Part]
    held: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def look(self) -> None:
        """Note what each holds now; not what it started."""
        for name, part in self.parts.items():
            if part.pid is not None:
                with contextlib.suppress(OSError):
                    self.held[name].append(pss_mb(part.pid))

    def growth(self) -> Iterator[tuple[str, float]]:
        """How many times as much each held at most in the last third as in the second."""
        for name, held in self.held.items():
            third = len(held) // 3
            if third:
                yield name, max(held[-third:]) / max(held[third : 2 * third])


def pss_mb(pid: int) -> float:
    """What a process holds, in MB; pages that are shared count by their share."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
