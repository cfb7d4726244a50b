"""Rejected records of files: references to one are not reported as missing."""

from jobauto_prefect.facade.apply.documents import Document
from jobauto_prefect.facade.apply.record_kinds import FILES, Named, Word


class Refusals:
    """The rejected records; `unread`: the contents of some files are unknown."""

    def __init__(self, *, unread: bool = False) -> None:
        self.unread = unread
        self._words: set[tuple[str, Word]] = set()

    def add(self, document: Document) -> None:
        """Add a rejected document; it may lack anything, including its name."""
        kind = document.kind or ""
        try:
            self._words |= {(kind, word) for word in FILES[kind].by_words(document.content)}
        except (KeyError, TypeError, AttributeError):
            self.unread = True

    def may_be(self, named: Named) -> bool:
        """Whether a reference may mean a rejected record."""
        return self.unread or self._has(named)

    def is_needed_by(self, document: Document) -> bool:
        """Whether a document refers to a rejected record."""
        form = FILES[document.kind or ""]
        named = (*form.named(document.content), *form.started(document.content))
        return any(map(self._has, named))

    def _has(self, named: Named) -> bool:
        meant = FILES[named.kind].words_meant(named)
        return any((named.kind, word) in self._words for word in meant)
