"""Makes a new installation from a backup.

The key comes last, and until then the home is marked: after a crash in between, nothing can start
with it.
"""

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from jobauto_prefect.backup import postgresql
from jobauto_prefect.backup.archive import Backup, Manifest
from jobauto_prefect.backup.comparison import Difference, compare
from jobauto_prefect.backup.databases import (
    LEDGER,
    POSTGRESQL,
    PREFECT,
    SQLITE,
    Database,
    databases_of,
)
from jobauto_prefect.backup.installation import differing_settings, versions
from jobauto_prefect.backup.restore_mark import RestoreMark, mark_home, write_new
from jobauto_prefect.backup.settings_files import PutFile, put_files, staged_settings
from jobauto_prefect.engine.services.window_scheduler import WindowScheduler
from jobauto_prefect.errors import Conflict, NotReady
from jobauto_prefect.home import make_folder, make_home, require_whole
from jobauto_prefect.jobs.restoration import RestorationResult, name_of, prepare_restored
from jobauto_prefect.ledger.audit.trail import Actor
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import database_errors, long_limits, make_engine
from jobauto_prefect.ledger.jobs import restoration
from jobauto_prefect.ledger.opening import ledger_at
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that waited for a worker when the backup was made."""

    job_id: int
    runtemplate: str
    schedule: datetime


@dataclass(frozen=True, slots=True)
class WindowSummary:
    """Missed windows of a run template with the same outcome.

    They were due between backup and restore; the outcome is a state of tasks, and the rule that
    ended them.
    """

    runtemplate: str
    state: str
    reason: str | None
    count: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class RestoredInstallation:
    """A new installation, frozen; the differences in it, and the missed windows."""

    home: Path
    manifest: Manifest
    begun: RestorationResult
    waiting: Sequence[WaitingJob]
    windows: Sequence[WindowSummary]
    differences: Sequence[Difference]
    settings: dict[str, tuple[Any, Any]]
    files: Sequence[PutFile]


def restore_backup(
    settings: Settings,
    backup: Backup,
    actor: Actor,
    progress: Progress = lambda _what: None,
) -> RestoredInstallation:
    """Make a new installation, where these settings say, from a verified backup.

    Raises:
        Conflict: an installation exists there, or the databases are of other kinds.
        NotReady: a program is missing, another version is needed, or an earlier restore was
            interrupted.
        LedgerUnavailable: a database does not answer.
    """
    of_prefect, of_ledger = databases_of(settings)
    targets = _targets(of_prefect, of_ledger, backup.manifest)
    _require_room(settings, backup, targets)
    make_home(settings)
    shared = of_prefect if backup.manifest.is_shared else None
    with mark_home(settings.home, _help(settings, targets)) as mark:
        staged = {  # SQLite's are filled at a hidden place, and moved to their own at the end
            name: database
            if database.kind == POSTGRESQL
            else replace(database, url=f"sqlite:///{mark.staging / database.member}")
            for name, database in targets.items()
        }
        _fill([*staged.values(), *([shared] if shared else [])], backup, mark, progress)
        key = mark.staging / "secret.key"
        write_new(key, backup.secrets.key)
        progress("comparing, and looking for missed windows")
        in_effect = staged_settings(settings, backup, mark.staging)
        engine = make_engine(staged[LEDGER].url, long_limits(in_effect))
        with database_errors():
            migration.upgrade(engine)
        ledger = ledger_at(engine, key)
        try:
            with_prefect = staged.get(PREFECT, shared)
            begun, differences, owed = _begin(ledger, in_effect, backup, with_prefect, actor)
        finally:
            ledger.close()
        mark.is_binding = True
        for name, database in staged.items():
            if database.kind == SQLITE:
                target = targets[name].file
                make_folder(target.parent)
                shutil.move(database.file, target)
        files = put_files(settings, backup, mark.staging)
        make_folder(settings.key_path.parent)
        shutil.move(key, settings.key_path)
    return RestoredInstallation(
        settings.home,
        backup.manifest,
        begun,
        *owed,
        differences,
        differing_settings(backup.manifest.settings, in_effect),
        files,
    )


def _fill(
    databases: Sequence[Database], backup: Backup, mark: RestoreMark, progress: Progress
) -> None:
    """Fill the databases; those of PostgreSQL are in place from the start."""
    for database in databases:
        progress(f"restoring the database of {database.name}")
        member = LEDGER if backup.manifest.is_shared else database.name
        mark.is_binding |= database.kind == POSTGRESQL
        made_by = backup.manifest.databases[member].tool
        database.restore(made_by, partial(backup.content, member))


def _targets(of_prefect: Database, of_ledger: Database, manifest: Manifest) -> dict[str, Database]:
    """Return the targets of a backup's databases, Prefect's first.

    Raises:
        Conflict: they are of other kinds here, or one database in the backup is two here, or the
            reverse.
    """
    if manifest.is_shared != of_ledger.is_same(of_prefect) and (
        manifest.is_shared or PREFECT in manifest.databases
    ):
        wanted = "one database" if manifest.is_shared else "two databases"
        raise Conflict(
            f"the backup has ledger and Prefect in {wanted}; name {wanted} here, too"
            " (database.env and PREFECT_SERVER_DATABASE_CONNECTION_URL)"
        )
    targets = {
        database.name: database
        for database in (of_prefect, of_ledger)
        if database.name in manifest.databases
    }
    for name, database in targets.items():
        kind = manifest.databases[name].kind
        if kind == database.kind:
            continue
        where = {
            LEDGER: "database.env, or JOBAUTO_DATABASE_URL",
            PREFECT: "PREFECT_SERVER_DATABASE_CONNECTION_URL",
        }[name]
        how = "PostgreSQL; create an empty one and name it"
        if kind == SQLITE:
            how = "SQLite; leave it to the home"
        raise Conflict(f"the database of {name} in this backup is {how} ({where})")
    return targets


def _require_room(settings: Settings, backup: Backup, targets: dict[str, Database]) -> None:
    """Check everything that can be checked before anything is written."""
    require_whole(settings.home)
    if settings.key_path.exists():
        raise Conflict(
            f"an installation already exists: {settings.key_path}; name an empty JOBAUTO_HOME"
        )
    for name, database in targets.items():
        made_by = backup.manifest.databases[name].tool
        if database.kind == POSTGRESQL:
            postgresql.restorer(database.url, made_by)
        if database.holds_anything():
            where = database.file if database.kind == SQLITE else "in PostgreSQL"
            raise Conflict(
                f"the database of {name} is not empty ({where}); a backup is restored into a new"
                " home and empty databases only"
            )
    manifest = backup.manifest
    if manifest.migration > migration.newest():
        raise NotReady(
            f"the backup is of jobauto {manifest.jobauto} (ledger {manifest.migration}), this"
            f" one is older (ledger {migration.newest()}); install that version and run this again"
        )
    _, prefect = versions()
    if PREFECT in targets and _numbers(manifest.prefect) > _numbers(prefect):
        raise NotReady(
            f"Prefect's database is of version {manifest.prefect}, but {prefect} is installed here;"
            f" install prefect=={manifest.prefect} and run this again"
        )


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def _help(settings: Settings, targets: dict[str, Database]) -> str:
    """Return what to do after an interrupted restore."""
    names = [name for name, database in targets.items() if database.kind == POSTGRESQL]
    named = " and ".join(names)
    emptied = f", create the databases of {named} again (dropdb, createdb)" if names else ""
    elsewhere = [
        str(database.file)
        for database in targets.values()
        if database.kind == SQLITE and not database.file.is_relative_to(settings.home)
    ]
    files = f" and {' and '.join(elsewhere)}" if elsewhere else ""
    return f"nothing has run with it: remove {settings.home}{files}{emptied}, and restore again"


def _begin(
    ledger: Ledger, settings: Settings, backup: Backup, prefect: Database | None, actor: Actor
) -> tuple[
    RestorationResult, Sequence[Difference], tuple[Sequence[WaitingJob], Sequence[WindowSummary]]
]:
    """Freeze the restored ledger, then open the windows that passed.

    So their outcome is known before anything starts.
    """
    with ledger.reading() as session:
        comparison = compare(session, prefect) if prefect else None
        waiting = [
            WaitingJob(job.id, name_of(job), job.schedule)
            for job in restoration.waiting_jobs(session)
        ]
    manifest, began_at = backup.manifest, ledger.clock()
    prefect_taken_at = manifest.prefect_taken_at
    with ledger.writing(actor) as session:
        begun = prepare_restored(
            session,
            settings,
            datetime.fromisoformat(manifest.taken_at),
            datetime.fromisoformat(prefect_taken_at) if prefect_taken_at else None,
            comparison.unknown_runs if comparison else frozenset(),
        )
    WindowScheduler(ledger).open_due()
    with ledger.reading() as session:
        opened = restoration.opened_since(session, began_at)
    windows = [WindowSummary(*row) for row in opened]
    return begun, comparison.differences if comparison else (), (waiting, windows)
