"""What checks of availability found, for a short while."""

import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from jobauto_prefect.jobs.credentials import layer_of
from jobauto_prefect.ledger.records import Credential
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.availability import Availability, check_availability


@dataclass(slots=True)
class AvailabilityCache:
    """What checks found; each is asked once in `seconds`, by one claim at a time."""

    seconds: float = 10
    _found: dict[tuple[Any, ...], tuple[datetime, Availability]] = field(default_factory=dict)
    _locks: dict[int, threading.Lock] = field(default_factory=dict)

    def of(
        self, credential: Credential, settings: Settings, box: SecretBox, now: datetime
    ) -> Availability:
        """Whether what a credential opens is there."""
        kind = credential.credential_type
        key = credential.id, credential.updated_at, kind.updated_at
        with self._locks.setdefault(credential.id, threading.Lock()):
            known = self._found.get(key)
            if known is not None and now - known[0] < timedelta(seconds=self.seconds):
                return known[1]
            layer = layer_of(credential, box)
            check = kind.availability or {}
            found = check_availability(check, layer.values, layer.secrets, settings)
            for other in [one for one in self._found if one[0] == credential.id]:
                del self._found[other]
            self._found[key] = now, found
            return found
