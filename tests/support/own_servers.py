"""Database servers of a test's own, which it may kill: the shared ones stay up."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url
from sqlalchemy.exc import DBAPIError

from jobauto_prefect.sources.targets import Target
from tests.support.adapters import AdapterDatabase, changes_table
from tests.support.ports import free_port

PATIENCE = 60  # seconds
SYSTEM = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
UNPRIVILEGED = "nobody" if os.geteuid() == 0 else None
"""PostgreSQL refuses to run as root."""


class OwnServer:
    """A database server with an adapter database; it ends without saying goodbye to anybody."""

    def __init__(self, argv: list[str], url: str, log: Path, end: signal.Signals) -> None:
        self._argv, self.url, self._log, self._end = argv, make_url(url), log, end
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, until it answers."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._argv, stdout=output, stderr=output, user=self._user(), start_new_session=True
            )
        until = time.monotonic() + PATIENCE
        engine = create_engine(self.url.set(database=_ANY[self.url.get_backend_name()]))
        while True:
            try:
                with engine.connect():
                    break
            except DBAPIError:
                assert time.monotonic() < until, self._log.read_text()[-2000:]
                time.sleep(0.1)
        engine.dispose()

    def _user(self) -> str | None:
        return UNPRIVILEGED if self.url.get_backend_name() == "postgresql" else None

    def kill(self) -> None:
        """It is gone at once, with its children."""
        if self._process is not None:
            self._process.send_signal(self._end)
            self._process.wait()

    def restart(self, seconds: float) -> None:
        """It is away for so long."""
        self.kill()
        time.sleep(seconds)
        self.start()


_ANY = {"mysql": "mysql", "postgresql": "postgres"}


def _program(name: str) -> str:
    path = shutil.which(name, path=SYSTEM)
    if path is None:
        if os.environ.get("JOBAUTO_TEST_REQUIRE_SERVICES") == "1":
            raise FileNotFoundError(name)
        pytest.skip(f"there is no {name}")
    return path


def _mysql(folder: Path, port: int) -> OwnServer:
    data = folder / "mysql"
    server = _program("mariadbd")
    user = "root" if os.geteuid() == 0 else None
    common = ["--no-defaults", f"--datadir={data}", *([f"--user={user}"] if user else [])]
    install = [_program("mariadb-install-db"), *common, "--auth-root-authentication-method=normal"]
    subprocess.run(install, check=True, capture_output=True)
    argv = [
        server, *common, f"--port={port}", "--bind-address=127.0.0.1",
        f"--socket={folder}/mysql.sock", f"--pid-file={folder}/mysql.pid",
    ]  # fmt: skip
    url = f"mysql+pymysql://root@127.0.0.1:{port}/adapter"
    return OwnServer(argv, url, folder / "mysql.log", signal.SIGKILL)


def _pgsql(folder: Path, port: int) -> OwnServer:
    data = folder / "pgsql"
    data.mkdir()
    if UNPRIVILEGED:
        shutil.chown(data, UNPRIVILEGED)
        for parent in (folder, *folder.parents[:-2]):
            parent.chmod(parent.stat().st_mode | 0o011)
    init = [_program("initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync"]
    subprocess.run(init, check=True, capture_output=True, user=UNPRIVILEGED, cwd="/")
    argv = [
        _program("postgres"), "-D", str(data), "-p", str(port), "-c", "unix_socket_directories=",
        "-c", "listen_addresses=127.0.0.1",
    ]  # fmt: skip
    url = f"postgresql+psycopg://postgres@127.0.0.1:{port}/adapter"
    return OwnServer(argv, url, folder / "pgsql.log", signal.SIGQUIT)


SERVERS: Mapping[str, Callable[[Path, int], OwnServer]] = {"mysql": _mysql, "pgsql": _pgsql}


@contextlib.contextmanager
def own_adapter(kind: str, folder: Path) -> Iterator[tuple[AdapterDatabase, OwnServer]]:
    """An adapter database with its empty table, on a server of its own."""
    folder.mkdir(exist_ok=True)
    server = SERVERS[kind](folder, free_port())
    try:
        server.start()
        whole = create_engine(
            server.url.set(database=_ANY[server.url.get_backend_name()]),
            isolation_level="AUTOCOMMIT",
        )
        with whole.connect() as connection:
            connection.exec_driver_sql("CREATE DATABASE adapter")
        whole.dispose()
        engine = create_engine(server.url, pool_pre_ping=True)
        table = changes_table()
        table.metadata.create_all(engine)
        url = server.url
        target = Target(kind, url.host or "", str(url.port), url.database or "", url.username, None)
        yield AdapterDatabase(target, engine, table), server
        engine.dispose()
    finally:
        server.kill()
