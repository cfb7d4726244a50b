"""What is done to this machine's own ledger, not through the REST contract."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json

if TYPE_CHECKING:
    from jobauto_prefect.ledger.audit import Actor
    from jobauto_prefect.ledger.store import Ledger

database = typer.Typer(help="The tables of the ledger.", no_args_is_help=True)
secrets = typer.Typer(help="The key of the secret values.", no_args_is_help=True)


@contextlib.contextmanager
def opened() -> "Iterator[Ledger]":
    """This machine's ledger.

    Raises:
        NotReady: it lacks its key or its tables; the message says what helps.
    """
    from jobauto_prefect.ledger.store import open_ledger
    from jobauto_prefect.settings import load_settings

    ledger = open_ledger(load_settings())
    try:
        yield ledger
    finally:
        ledger.close()


def operator() -> "Actor":
    """Whoever sits at this command line, as the audit trail names them."""
    from jobauto_prefect.ledger.audit import Actor
    from jobauto_prefect.settings import local_operator

    return Actor(name=local_operator(), door="cli")


@database.command()
def upgrade(as_json: Json = False) -> None:
    """Create the tables of the ledger, or bring them to this version."""
    from jobauto_prefect.cli.show import print_json, say
    from jobauto_prefect.ledger import migrate

    with _engine() as engine:
        before, after = migrate.upgrade(engine)
    if as_json:
        print_json({"before": before, "after": after})
    elif before == after:
        say(f"the ledger is at version {after} already")
    else:
        say(f"the ledger is at version {after} now" + (f", it was at {before}" if before else ""))


@database.command()
def check(as_json: Json = False) -> None:
    """Check that the tables are those of this version; exit code 1 where they are not."""
    from jobauto_prefect.cli.show import print_json, say
    from jobauto_prefect.ledger import migrate

    with _engine() as engine:
        found, wanted = migrate.current(engine), migrate.newest()
    if as_json:
        print_json({"current": found == wanted, "version": found, "wanted": wanted})
    elif found == wanted:
        say(f"the ledger is at version {found}, as it should be")
    else:
        say(f"the ledger is at version {found or 'none'}, not {wanted}; run: jobauto db upgrade")
    if found != wanted:
        raise typer.Exit(1)


@contextlib.contextmanager
def _engine() -> "Iterator[Any]":
    from jobauto_prefect.home import make_home
    from jobauto_prefect.ledger.store import database_errors, long_limits, make_engine
    from jobauto_prefect.settings import load_settings

    settings = load_settings()
    make_home(settings)  # where SQLite makes its file
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
            "--settle", metavar="SECONDS", min=0, help="Wait so long before the last look."
        ),
    ] = 5,
    as_json: Json = False,
) -> None:
    """Encrypt all secret values with a new key. Interrupted, the same command goes on.

    The service may run meanwhile. Backups of the database made before need the key of before:
    keep a copy of the key file with them, apart.

    Example: jobauto secrets rotate
    """
    from jobauto_prefect.cli.show import hint, print_json, say
    from jobauto_prefect.ledger.rotation import rotate as give_new_key
    from jobauto_prefect.wording import counted

    with opened() as ledger:
        if not as_json and len(ledger.box.ring.keys) > 1:
            hint("a rotation was interrupted; it goes on")
        done = give_new_key(ledger, operator(), settle)
        path = str(ledger.box.path)
    if as_json:
        print_json({"path": path, "resealed": done.resealed, "fingerprint": done.fingerprint})
    else:
        say(f"{counted(done.resealed, 'value')} encrypted with a new key, which is in {path}")


@secrets.command()
def init(as_json: Json = False) -> None:
    """Make the key that encrypts secret values. One that is there is never replaced.

    Keep a copy of the file apart from copies of the database: without it the secrets are lost.
    """
    from jobauto_prefect.cli.show import print_json, say
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
        say(f"the key is in {path}" if created else f"there is a key already: {path}")
