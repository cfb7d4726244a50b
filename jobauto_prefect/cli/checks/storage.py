"""Checks of an installation's storage: database, tables, key, files of its home, audit trail."""

import shlex
import stat
from collections.abc import Iterator
from datetime import timedelta

from jobauto_prefect.errors import AuditDamaged, JobautoError, KeyMissing
from jobauto_prefect.home import open_paths
from jobauto_prefect.ledger.audit.seal_verification import verify_newest
from jobauto_prefect.ledger.opening import open_ledger, tables_of
from jobauto_prefect.ledger.secrets import load_key
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.monitoring.finding import Finding
from jobauto_prefect.settings import RUN_AS_DIRECTORY, Settings
from jobauto_prefect.wording import pluralize

SEAL_PATIENCE = timedelta(minutes=10)
"""How long an audit entry may stay without a seal."""


START = "create one: jobauto up"


def database_findings(settings: Settings) -> Iterator[Finding]:
    """Check that the database answers and has the tables of this version."""
    try:
        version, problem = tables_of(settings)
    except JobautoError as error:
        help_ = "start the database, or correct database.env (docs/settings.md)"
        yield Finding("database", "wrong", str(error), help_)
        return
    if version is None and not settings.key_path.exists():
        message = f"there is no installation in {settings.home}"
        yield Finding("database", "wrong", message, f"{START}; or set JOBAUTO_HOME to where it is")
        return
    kind = settings.ledger_url.partition(":")[0]
    yield Finding("database", "ok", f"answers ({kind})")
    if problem is None:
        yield Finding("migrations", "ok", f"the tables are at version {version}")
    else:
        message, _, help_ = problem.partition("; ")
        yield Finding("migrations", "wrong", message, help_.removeprefix("run: "))


def key_findings(settings: Settings) -> Iterator[Finding]:
    """Check that the key of the secret values exists and that only its owner can read it."""
    path = settings.key_path
    try:
        load_key(path)
    except KeyMissing as error:
        help_ = "restore your copy of it" if _may_have_ledger(settings) else START
        yield Finding("key", "wrong", str(error), help_)
        return
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        yield Finding("key", "warning", f"others may read {path}", f"chmod 600 {path}")
    else:
        yield Finding("key", "ok", f"is in {path}")


def _may_have_ledger(settings: Settings) -> bool:
    try:
        return tables_of(settings)[0] is not None
    except JobautoError:
        return True


def home_findings(settings: Settings) -> Iterator[Finding]:
    """Check that other users of this machine, such as users of native jobs, can't reach files."""
    paths = [str(path) for path in open_paths(settings)]
    if paths:
        message = f"others can reach {', '.join(paths)}"
        yield Finding("home", "warning", message, f"chmod go= {shlex.join(paths)}")
    elif settings.home.is_dir():
        yield Finding("home", "ok", f"{settings.home} and its files are closed to other users")
    if settings.run_as and settings.work_directory.is_relative_to(settings.home):
        message = f"jobs that run as other users have directories in the home: {settings.home}"
        help_ = f"set JOBAUTO_WORKER_DIRECTORY to a place outside it, such as {RUN_AS_DIRECTORY}"
        yield Finding("home", "warning", message, help_)


def open_or_report(settings: Settings, findings: list[Finding]) -> Ledger | None:
    """Open the ledger.

    Returns:
        None if it can't be opened with this key; a finding is then appended to `findings`.
    """
    try:
        return open_ledger(settings)
    except JobautoError as error:
        help_ = "restore the key this ledger was created with, as secret.key"
        findings.append(Finding("key", "wrong", str(error), help_))
        return None


def audit_finding(ledger: Ledger) -> Finding:
    """Check that the end of the audit trail matches its seals, and that sealing continues."""
    try:
        result = verify_newest(ledger)
    except AuditDamaged as error:
        return Finding("audit", "wrong", str(error), "details: jobauto audit verify")
    if result.damages:
        message = f"the end of the trail does not match its seals: {'; '.join(result.damages)}"
        return Finding("audit", "wrong", message, "details: jobauto audit verify")
    since = result.unsealed_since
    if since is not None and since < ledger.clock() - SEAL_PATIENCE:
        entries = pluralize(result.unsealed, "entry", "entries")
        message = f"{entries} have had no seal since {since.isoformat()}"
        return Finding(
            "audit", "warning", message, "jobauto services start, or everything: jobauto up"
        )
    newest = f"seal {result.newest.number}" if result.seals else "no seal yet"
    return Finding("audit", "ok", f"the end of the trail matches its seals ({newest})")
