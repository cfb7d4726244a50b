"""Two installations for the tests of backups."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from jobauto_prefect.backup import archive
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.backups import Installations
from tests.support.databases import database
from tests.support.ports import free_port


@pytest.fixture(scope="package", autouse=True)
def cheap_passphrases() -> Iterator[None]:
    """The same function at the least cost makes the key; else each takes 0.2 s."""

    def key(passphrase: str, salt: bytes) -> bytes:
        return Scrypt(salt=salt, length=32, n=2, r=8, p=1).derive(passphrase.encode())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "_key", key)
        yield


@pytest.fixture
def installations(
    facade_settings: Settings, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Installations]:
    home = tmp_path / "new"
    for name in [name for name in os.environ if name.startswith(("PREFECT_", "JOBAUTO_HOME"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("JOBAUTO_CONFIG_DIR", str(home))
    monkeypatch.setenv("PREFECT_HOME", str(home / "prefect"))
    kind = ledger.engine.dialect.name
    (tmp_path / "there").mkdir()
    with database(kind, tmp_path / "there") as url:
        own = {"database_url": url} if kind == "postgresql" else {}
        address = f"http://127.0.0.1:{free_port()}"
        lacking = "http://127.0.0.1:9/api"
        empty = Settings(home=home, url=address, prefect_api_url=lacking, **own)
        yield Installations(facade_settings, ledger, empty, tmp_path / "one.backup")
