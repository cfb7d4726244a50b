"""Whose token that is, remembered for a second; what is revoked counts at once all the same."""

import threading
from collections import OrderedDict
from datetime import datetime, timedelta

from jobauto_prefect.ledger.announcements import Announcement, Announcements
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.ledger.tokens import Bearer, bearer, digest_of

REMEMBERED = timedelta(seconds=1)
MOST_REMEMBERED = 1000


class RememberedTokens:
    """Asks the ledger, or not where it was asked within the last second.

    Everything is forgotten with each write that may change what somebody may do: of this process
    right after its commit, of others as the database announces it. While nothing can be announced
    nothing is remembered. Safe between threads.
    """

    def __init__(self, ledger: Ledger, announcements: Announcements) -> None:
        self._ledger = ledger
        self._announcements = announcements
        self._known: OrderedDict[str, tuple[Bearer, datetime]] = OrderedDict()
        self._writes = 0
        self._lock = threading.Lock()
        announcements.when(Announcement.RIGHTS, self.forget)
        ledger.when_rights_are_written(self.forget)

    def bearer(self, text: str) -> Bearer | None:
        """Whose token that is; None: nobody's."""
        digest, now = digest_of(text), self._ledger.clock()
        with self._lock:
            known, until = self._known.get(digest, (None, now))
            writes = self._writes
        if known is not None and now < until:
            return known
        with self._ledger.reading() as session:
            found = bearer(session, text, now)
        if found is not None:
            self._remember(digest, found, now, writes)
        return found

    def forget(self) -> None:
        """Ask anew for all."""
        with self._lock:
            self._writes += 1
            self._known.clear()

    def _remember(self, digest: str, found: Bearer, now: datetime, writes: int) -> None:
        until = min(now + REMEMBERED, found.changes_at or now + REMEMBERED)
        with self._lock:
            # What was written since we asked may be what we did not read.
            if self._announcements.is_live and writes == self._writes:
                self._known[digest] = found, until
                if len(self._known) > MOST_REMEMBERED:
                    self._known.popitem(last=False)
