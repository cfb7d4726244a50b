"""Tokens and their owners, cached for 1 s; revocations still take effect immediately."""

import threading
from collections import OrderedDict
from collections.abc import Collection
from datetime import datetime, timedelta

from jobauto_prefect.ledger.access.tokens import API_KINDS, Bearer, TokenKind, bearer, digest_of
from jobauto_prefect.ledger.database.announcements import Announcement, Announcements
from jobauto_prefect.ledger.store import Ledger

REMEMBER_FOR = timedelta(seconds=1)
MAX_REMEMBERED = 1000


class TokenCache:
    """Looks up tokens in the ledger, at most once a second for each.

    Each write that may change permissions clears the cache: this process's right after commit,
    others' when the database announces it. While nothing can be announced nothing is cached.
    Thread-safe.
    """

    def __init__(self, ledger: Ledger, announcements: Announcements) -> None:
        self._ledger = ledger
        self._announcements = announcements
        self._known: OrderedDict[str, tuple[Bearer, datetime]] = OrderedDict()
        self._writes = 0
        self._lock = threading.Lock()
        announcements.when(Announcement.RIGHTS, self.forget)
        ledger.when_rights_are_written(self.forget)

    def bearer(self, text: str, kinds: Collection[TokenKind] = API_KINDS) -> Bearer | None:
        """Return the owner of a token; None if it is unknown, expired, revoked or malformed."""
        digest, now = digest_of(text), self._ledger.clock()
        with self._lock:
            owner, until = self._known.get(digest, (None, now))
            writes = self._writes
        if owner is None or now >= until:
            with self._ledger.reading() as session:
                owner = bearer(session, text, now)
            if owner is not None:
                self._remember(digest, owner, now, writes)
        return owner if owner is not None and owner.kind in kinds else None

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._writes += 1
            self._known.clear()

    def _remember(self, digest: str, owner: Bearer, now: datetime, writes: int) -> None:
        until = min(now + REMEMBER_FOR, owner.changes_at or now + REMEMBER_FOR)
        with self._lock:
            # A write since the query may not be in its result.
            if self._announcements.is_live and writes == self._writes:
                self._known[digest] = owner, until
                if len(self._known) > MAX_REMEMBERED:
                    self._known.popitem(last=False)
