"""`jobauto db` and `jobauto secrets`: the databases of this machine's home, and its key."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json
from jobauto_prefect.cli.output.terminal import (
    print_hint,
    print_json,
    print_line,
    show_progress,
)
from jobauto_prefect.wording import escape_controls, pluralize

if TYPE_CHECKING:
    from jobauto_prefect.backup.move import Move

database = typer.Typer(
    help="The tables of the ledger, and a move to PostgreSQL.", no_args_is_help=True
)
secrets = typer.Typer(help="The key of the secret values.", no_args_is_help=True)


@database.command()
def upgrade(as_json: Json = False) -> None:
    """Create the tables of the ledger, or upgrade them to this version.

    If Prefect is on PostgreSQL, this does the same for its tables. Parts of this release and of the
    one before may run meanwhile.
    """
    from jobauto_prefect.cli.service.installation import upgrade_prefect
    from jobauto_prefect.ledger.database import migration
    from jobauto_prefect.settings import load_settings

    with _open_engine() as engine:
        before, after = migration.upgrade(engine)
    upgrade_prefect(load_settings())
    if as_json:
        print_json({"before": before, "after": after})
    elif before == after:
        print_line(f"the ledger is already at version {after}")
    else:
        print_line(
            f"the ledger is now at version {after}" + (f"; it was at {before}" if before else "")
        )


@database.command()
def check(as_json: Json = False) -> None:
    """Check that this version can work with the tables; if not, exit code 1."""
    from jobauto_prefect.ledger.database import migration

    with _open_engine() as engine:
        version, wanted = migration.current(engine), migration.newest()
        problem = migration.problem(engine)
    if as_json:
        print_json({"current": problem is None, "version": version, "wanted": wanted})
    else:
        print_line(problem or f"the ledger is at version {version}, as it should be")
    if problem is not None:
        raise typer.Exit(1)


@database.command()
def move(
    ledger: Annotated[
        str | None, typer.Option("--ledger", metavar="URL", help="New database of the ledger.")
    ] = None,
    prefect: Annotated[
        str | None, typer.Option("--prefect", metavar="URL", help="New database of Prefect.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Move the databases of ledger and Prefect from SQLite to PostgreSQL.

    Stop jobauto up first, and create two empty databases. The SQLite databases stay as they are.
    After an interruption, repeat the command. If a URL has no password, that of PGPASSWORD or
    ~/.pgpass is used.

    Example: jobauto db move --ledger postgresql://jobauto@db/jobauto
    --prefect postgresql://jobauto@db/prefect
    """
    from jobauto_prefect.backup.move import move_databases
    from jobauto_prefect.cli.local_ledger import local_actor
    from jobauto_prefect.cli.service.addresses import hold_home
    from jobauto_prefect.settings import load_settings

    urls = {"ledger": ledger, "prefect": prefect}
    settings = load_settings()
    with hold_home(settings.home, {}), show_progress(shown=not as_json) as progress:
        done = move_databases(
            settings,
            {name: url for name, url in urls.items() if url is not None},
            local_actor(),
            progress,
        )
    if as_json:
        print_json(
            {
                "databases": {
                    name: {"source": str(moved.source), "rows": dict(moved.tables)}
                    for name, moved in done.databases.items()
                },
                "seals": done.seals,
                "damages": list(done.damages),
                "settings": list(done.variables),
                "file": done.file and str(done.file),
                "overriding": list(done.overriding),
            }
        )
    else:
        _print_move(done)


def _print_move(done: "Move") -> None:
    for name, moved in done.databases.items():
        rows = pluralize(sum(moved.tables.values()), "row")
        print_line(escape_controls(f"{name}: {rows} moved; {moved.source} is as it was"))
    for damage in done.damages:
        print_line(escape_controls(f"audit trail: {damage}"), style="red")
    if not done.damages:
        print_line(f"the audit trail is intact ({pluralize(done.seals, 'seal')})")
    named = " and ".join(done.variables)
    if done.file is not None:
        print_line(escape_controls(f"{done.file} has the new addresses ({named})"))
    else:
        print_hint(
            f"database.env can't be written; set {named} to the new addresses before a start"
        )
    if done.overriding:
        print_hint(
            "the environment still has former addresses, which take precedence:"
            f" {', '.join(done.overriding)}"
        )
    print_hint("then start it: jobauto up; check it: jobauto doctor")


@contextlib.contextmanager
def _open_engine() -> Iterator[Any]:
    from jobauto_prefect.home import make_home
    from jobauto_prefect.ledger.database.engine import database_errors, long_limits, make_engine
    from jobauto_prefect.settings import load_settings

    settings = load_settings()
    make_home(settings)  # where SQLite creates its file
    engine = make_engine(settings.ledger_url, long_limits(settings))
    try:
        with database_errors():
            yield engine
    finally:
        engine.dispose()


@secrets.command()
def rotate(
    settle: Annotated[
        float,
        typer.Option(
            "--settle", metavar="SECONDS", min=0, help="How long to wait before the final check."
        ),
    ] = 5,
    as_json: Json = False,
) -> None:
    """Encrypt all secret values with a new key.

    The service may keep running. After an interruption, repeat the command to continue. Older
    backups of the database need the former key: keep a copy of that key file, separate from the
    backups.

    Example: jobauto secrets rotate
    """
    from jobauto_prefect.cli.local_ledger import local_actor, open_local_ledger
    from jobauto_prefect.ledger.key_rotation import rotate as give_new_key

    with open_local_ledger() as ledger:
        if not as_json and len(ledger.box.ring.keys) > 1:
            print_hint("continuing an interrupted rotation")
        done = give_new_key(ledger, local_actor(), settle)
        path = str(ledger.box.path)
    if as_json:
        print_json({"path": path, "resealed": done.resealed, "fingerprint": done.fingerprint})
    else:
        print_line(
            f"{pluralize(done.resealed, 'value')} encrypted with a new key, which is in {path}"
        )


@secrets.command()
def init(as_json: Json = False) -> None:
    """Create the key that encrypts secret values. An existing key is never replaced.

    Keep a copy of the key file, separate from copies of the database: without the key, the secrets
    are lost.
    """
    from jobauto_prefect.home import close_home
    from jobauto_prefect.ledger.secrets import create_key
    from jobauto_prefect.settings import load_settings

    settings = load_settings()
    path = settings.key_path
    created = create_key(path)
    close_home(settings)
    if as_json:
        print_json({"path": str(path), "created": created})
    else:
        print_line(f"the key is in {path}" if created else f"a key already exists: {path}")
