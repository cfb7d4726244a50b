"""The socket of a home: who has it, who finds it, and what is left of it."""

import os
import socket
import stat
from pathlib import Path

import pytest

from jobauto_prefect.local_socket import FOLDER, NAME, connect, is_answering, listen, peer_user_id


@pytest.fixture(autouse=True)
def _no_database_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DB_CONNECTION", "DB_HOST", "DB_PORT", "DB_DATABASE", "JOBAUTO_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)


def modes(home: Path) -> tuple[int, int]:
    folder = home / FOLDER
    return tuple(stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / NAME))


def test_it_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(mode=0o777)
    before = os.umask(0)
    try:
        with listen(tmp_path):
            assert modes(tmp_path) == (0o700, 0o600)
            assert os.umask(0) == 0
    finally:
        os.umask(before)


def test_who_connects_is_known_by_the_kernels_word(tmp_path: Path) -> None:
    with listen(tmp_path) as listener:
        assert listener is not None
        client = connect(tmp_path)
        assert client is not None
        server, _ = listener.accept()
        with client, server:
            assert peer_user_id(server) == os.geteuid()


def test_a_path_longer_than_addresses_of_sockets_is_no_hindrance(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 50)
    home.mkdir()

    with listen(home):
        assert is_answering(home)


def test_nobody_answers_where_nobody_listens(tmp_path: Path) -> None:
    assert not is_answering(tmp_path)
    with listen(tmp_path):
        pass
    assert not is_answering(tmp_path)
    assert not (tmp_path / FOLDER / NAME).exists()


def test_what_a_killed_service_left_answers_nobody_and_is_replaced(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(Path(os.path.relpath(tmp_path)) / FOLDER / NAME))
        killed.listen()

    assert (tmp_path / FOLDER / NAME).exists()
    assert not is_answering(tmp_path)
    with listen(tmp_path):
        assert is_answering(tmp_path)


def test_the_second_of_a_home_leaves_it_to_the_first(tmp_path: Path) -> None:
    with listen(tmp_path):
        with listen(tmp_path) as second:
            assert second is None
        assert is_answering(tmp_path)


def test_who_was_told_of_another_database_is_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBAUTO_DATABASE_URL", "postgresql://me:hush@host/one")
    with listen(tmp_path):
        assert is_answering(tmp_path)
        monkeypatch.setenv("JOBAUTO_DATABASE_URL", "postgresql://me:hush@host/other")
        assert not is_answering(tmp_path)
        monkeypatch.delenv("JOBAUTO_DATABASE_URL")
        assert is_answering(tmp_path)
        assert all(b"hush" not in file.read_bytes() for file in (tmp_path / FOLDER).glob("*.lock"))
