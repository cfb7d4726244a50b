"""Reading adapter databases, and testing whether that is possible: real ones of each kind."""

import importlib
import json
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from jobauto_prefect.errors import SourceUnavailable
from jobauto_prefect.sources.adapters import LARGEST_CHANGE, PAGE_BYTES, Adapter, Change, TimeLimits
from jobauto_prefect.sources.probe import probe
from jobauto_prefect.sources.targets import Target, TargetRules
from tests.support.adapters import KINDS, AdapterDatabase, adapter_database
from tests.support.secrets import SECRET

RULES = TargetRules()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> float:
    """So many seconds a probe may take of a server that answers."""
    module = importlib.import_module("jobauto_prefect.sources.probe")
    monkeypatch.setattr(module, "LIMITS", TimeLimits(30, 30))
    return 60


def test_changes_come_in_their_order_with_all_their_columns(adapter: AdapterDatabase) -> None:
    context = {"number": "VF1-0007", "lines": [{"price": 12.5}]}
    adapter.add(7, context=context, document_uri="https://erp.example/7", externalids="code:A")
    adapter.add(3, operation="delete")
    with Adapter(adapter.target, RULES) as opened:
        first, second = opened.after(0, 10)
        assert (first.inversion, first.members["operation"]) == (3, "delete")
        assert second.members["context"] == context
        assert second.members["document_uri"] == "https://erp.example/7"
        assert second.members["externalids"] == "code:A"
        assert [one.inversion for one in opened.after(0, 1)] == [3]
        assert [one.inversion for one in opened.after(3, 10)] == [7]
        adapter.add(9)
        assert [one.inversion for one in opened.after(7, 10)] == [9]
        opened.check_removal()
        assert adapter.inversions() == [3, 7, 9]
        opened.remove([3, 7, 8])
    assert adapter.inversions() == [9]


def test_a_page_has_so_many_bytes_at_most(adapter: AdapterDatabase) -> None:
    adapter.add(1, 20, context={"text": "x" * 900_000})
    adapter.add(21, context={"text": "x" * LARGEST_CHANGE})
    read = list[Change]()
    with Adapter(adapter.target, RULES) as opened:
        while page := opened.after(read[-1].inversion if read else 0, 500):
            sizes = [len(json.dumps(one.members, ensure_ascii=False).encode()) for one in page]
            assert sum(sizes) <= PAGE_BYTES
            read += page
    assert [one.inversion for one in read] == list(range(1, 22))
    assert [one.inversion for one in read if one.fault] == [21]
    assert read[-1].members == {"inversion": 21}


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"


@pytest.mark.parametrize(
    "made",
    [f"{ENDLESS} SELECT x, 1, '', '' FROM n WHERE x < 0", "SELECT 1, 1, '', zeroblob(500000000)"],
)
def test_what_a_file_computes_has_an_end(tmp_path: Path, made: str) -> None:
    path = tmp_path / "made.db"
    with closing(sqlite3.connect(path)) as made_by_others:
        columns = "(inversion, recordid, evidence, operation)"
        made_by_others.execute(f"CREATE VIEW changes_cache {columns} AS {made}")
    target = Target("sqlite", "", "", str(path))
    limits = TimeLimits(connect=1, answer=1)
    with Adapter(target, RULES, limits) as opened, pytest.raises(SourceUnavailable):
        opened.after(0, 10)


def test_a_change_of_very_many_values_is_not_taken_apart(adapter: AdapterDatabase) -> None:
    adapter.add(1, context=[[]] * 150_000)
    with Adapter(adapter.target, RULES) as opened:
        (change,) = opened.after(0, 10)
    assert change.fault == "context has more than 100000 values"


@pytest.mark.parametrize("kind", KINDS)
def test_older_adapters_have_fewer_columns(kind: str, tmp_path: Path) -> None:
    with adapter_database(kind, tmp_path, newer=False) as adapter:
        adapter.add(1)
        with Adapter(adapter.target, RULES) as opened:
            (change,) = opened.after(0, 10)
    assert "context" not in change.members


def test_a_good_source_is_reachable(adapter: AdapterDatabase, patient: float) -> None:
    adapter.add(1)
    found = probe(adapter.target, RULES, removes=True, seconds=patient)
    assert (found.reachable, found.message) == (True, "changes_cache can be read; changes wait")
    assert adapter.inversions() == [1]


def test_without_its_table_a_source_is_not_reachable(
    adapter: AdapterDatabase, patient: float
) -> None:
    with adapter.engine.begin() as connection:
        connection.execute(text("DROP TABLE changes_cache"))
        connection.execute(text("CREATE TABLE changes_cache_old (inversion int)"))
    found = probe(adapter.target, RULES, removes=True, seconds=patient)
    assert not found.reachable
    assert "changes_cache" in found.message
    with adapter.engine.begin() as connection:
        connection.execute(text("CREATE TABLE changes_cache (inversion int)"))
    found = probe(adapter.target, RULES, removes=True, seconds=patient)
    assert not found.reachable


def _wrong(target: Target) -> Iterator[Target]:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield replace(target, port=str(closed.getsockname()[1]))
    yield replace(target, host="no-such-host.invalid")
    yield replace(target, username="nobody", password=SECRET)
    yield replace(target, database="nosuchdatabase")
    yield replace(target, host="169.254.169.254")


@pytest.mark.parametrize("kind", ["pgsql", "mysql"])
def test_what_is_wrong_is_said_without_the_password(kind: str, tmp_path: Path) -> None:
    with adapter_database(kind, tmp_path) as adapter:
        secret = replace(adapter.target, password=SECRET, username="nobody")
        for target in _wrong(secret):
            found = probe(target, RULES, removes=False)
            assert not found.reachable, target
            assert found.message
            assert SECRET not in found.message


def test_a_file_that_is_no_database_is_not_told_from_none(tmp_path: Path, patient: float) -> None:
    (tmp_path / "secret.txt").write_text("not a database")
    targets = [Target("sqlite", "", "", str(tmp_path / n)) for n in ("secret.txt", "nothing.db")]
    messages = {probe(target, RULES, removes=False, seconds=patient).message for target in targets}
    assert len(messages) == 1
    assert not (tmp_path / "nothing.db").exists()


@contextmanager
def _dribbling() -> Iterator[int]:
    """A server that says a byte now and then, and never enough."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk(client: socket.socket) -> None:
            with client:
                while not stop.wait(0.2):
                    try:
                        client.send(b"\x4a")
                    except OSError:
                        return

        def serve() -> None:
            while not stop.is_set():
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=(client,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        stop.set()


@pytest.mark.parametrize("kind", ["pgsql", "mysql"])
def test_a_server_that_says_nothing_sensible_does_not_hold_anybody_up(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, _dribbling() as dribbling:
        for port in (silent.getsockname()[1], dribbling):
            target = Target(kind, "127.0.0.1", str(port), "d", "me", SECRET)
            began = time.monotonic()
            found = probe(target, RULES, removes=True, seconds=1)
            # The promise is the bound itself: an answer within five seconds.
            assert time.monotonic() - began < 5
            assert not found.reachable


def test_errors_of_reading_are_this_projects_own(adapter: AdapterDatabase) -> None:
    with Adapter(adapter.target, RULES) as opened:
        with adapter.engine.begin() as connection:
            connection.execute(text("DROP TABLE changes_cache"))
        with pytest.raises(SourceUnavailable):
            opened.after(0, 1)
