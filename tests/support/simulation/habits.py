"""How simulated processes behave."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

Codes = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Habits:
    """How the processes of a template behave."""

    codes: Codes
    usual: timedelta

    def process(self, chance: random.Random) -> tuple[int, bool, timedelta]:
        """An exit code, whether it fulfils, and how long it takes."""
        declared = [int(code) for code in self.codes]
        drawn = chance.random()
        code = 0
        if drawn > 0.97:
            code = 99
        elif drawn > 0.8 and declared:
            code = chance.choice(declared)
        severity = self.codes.get(str(code), {}).get("severity", "error" if code else "success")
        if str(code) in self.codes and "severity" not in self.codes[str(code)]:
            severity = "error"
        slow = chance.random() > 0.985
        takes = chance.uniform(0.5, 14) * timedelta(hours=1) if slow else self.usual
        return code, severity in ("success", "info", "warning"), takes * chance.uniform(0.5, 1.5)
