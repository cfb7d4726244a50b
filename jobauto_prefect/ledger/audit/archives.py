"""Archives of the audit trail: the months that left it, as the ledger knows them.

The digest of each file is stored under an HMAC with the key of the seals: so the trail continues
where the archives end, and nobody without the key can claim that something was archived.
"""

import gzip
import hashlib
import hmac
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit.seals import BEGINNING, Mark, canonical_line
from jobauto_prefect.ledger.records import AuditArchive, AuditEntry, AuditSeal

FORM = 1
"""Version of the file format."""


def end_of(session: Session, key: str | None) -> tuple[Mark, int, list[str]]:
    """Return the last archived seal, the number of archived entries, and what is damaged.

    The damage is in the ledger's records of its archives.
    """
    last, entries, damages = BEGINNING, 0, []
    for archive in session.scalars(select(AuditArchive).order_by(AuditArchive.id)):
        where = f"archive {archive.id} (of {archive.month})"
        wanted = "" if key is None else hmac_of(key, archive)
        if not hmac.compare_digest(wanted.encode(), archive.hmac.encode()):
            damages.append(f"{where} was not made by this service, or was changed")
        if (archive.first_seal, archive.first_id) != (last.number + 1, last.last_id + 1):
            damages.append(f"{where} does not follow the archive before it")
        last = Mark(archive.last_seal, archive.last_id, archive.seal)
        entries += archive.entries
    return last, entries, damages


def archive_damages(session: Session, files: Iterable[Path]) -> Iterator[str]:
    """Yield what is wrong with archive files: the ledger must know each of them."""
    digests = {archive.digest for archive in session.scalars(select(AuditArchive))}
    for file in files:
        try:
            digest = digest_of(file)
        except (OSError, EOFError, zlib.error) as error:
            yield f"{file} can't be read: {error}"
            continue
        if digest not in digests:
            yield f"{file} is not an archive of this trail, or was changed"


def left_over(session: Session, last: Mark) -> Iterator[str]:
    """Yield archived entries and seals that are still, or again, in the trail."""
    for kind, name, number in (
        (AuditEntry, "entries", last.last_id), (AuditSeal, "seals", last.number)
    ):  # fmt: skip
        if session.scalar(select(kind.id).where(kind.id.between(1, number)).limit(1)) is not None:
            yield (
                f"{name} up to {number} are in archives, and here as well: jobauto audit archive "
                "removes them here, or somebody added them"
            )


def hmac_of(key: str, archive: AuditArchive) -> str:
    """Return the correct `hmac` of an archive's row."""
    content = [
        FORM, archive.id, archive.month, archive.first_seal, archive.last_seal, archive.first_id,
        archive.last_id, archive.entries, archive.digest, archive.seal, archive.archived_at,
    ]  # fmt: skip
    return hmac.new(key.encode(), b"archive:" + canonical_line(content), hashlib.sha256).hexdigest()


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a compressed file's uncompressed content."""
    total = hashlib.sha256()
    with gzip.open(path) as file:
        while piece := file.read(1 << 20):
            total.update(piece)
    return total.hexdigest()
