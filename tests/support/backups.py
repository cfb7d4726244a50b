"""An installation, its backup, and a new one that is made of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import prefect.server.database
from alembic.script import ScriptDirectory

from jobauto_prefect.backup.archive import Backup, open_backup
from jobauto_prefect.backup.creation import CreatedBackup, create_backup
from jobauto_prefect.backup.restoration import RestoredInstallation, restore_backup
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.secrets import secret

PASSPHRASE = secret("correct horse")


@dataclass(frozen=True, slots=True)
class Installations:
    """An installation to be backed up, and room for a new one with databases of the same kind."""

    settings: Settings
    ledger: Ledger
    empty: Settings
    file: Path

    def make(self) -> CreatedBackup:
        return create_backup(self.settings, self.ledger, self.file, PASSPHRASE, SERVICE)

    @contextmanager
    def opened(self) -> Iterator[Backup]:
        with open_backup(self.file, lambda: PASSPHRASE) as backup:
            yield backup

    def restore(self, settings: Settings | None = None) -> RestoredInstallation:
        with self.opened() as backup:
            return restore_backup(settings or self.empty, backup, SERVICE)


def newest_revision(kind: str) -> str:
    """The newest of Prefect's migrations for a kind of database."""
    folder = Path(prefect.server.database.__file__).parent / "_migrations"
    scripts = ScriptDirectory(str(folder), version_locations=[str(folder / "versions" / kind)])
    return str(scripts.get_current_head())
