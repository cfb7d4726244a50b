"""Settings come from the process environment, database.env and jobauto.env, in this order."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobauto_prefect.errors import InvalidInput
from jobauto_prefect.settings import Settings, load_settings

SHOW = (
    "from jobauto_prefect.settings import load_settings as l; s = l();"
    "print(s.pool, s.lease_seconds, s.ledger_url, s.prefect_api_url, s.key_path)"
)


def _read(directory: Path, **environment: str) -> str:
    """What a process reads whose home and configuration are in a directory."""
    environment |= {"JOBAUTO_HOME": str(directory), "PATH": os.environ["PATH"]}
    answer = subprocess.run(
        [sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True
    )
    return answer.stdout.strip()


@pytest.mark.spec("1.17")
def test_the_process_environment_wins_over_database_env_over_jobauto_env(tmp_path: Path) -> None:
    (tmp_path / "jobauto.env").write_text(
        "JOBAUTO_POOL=from-jobauto\nJOBAUTO_LEASE_SECONDS=7\nDB_DATABASE=wrong\n"
        "PREFECT_API_URL=http://prefect:4200/api\n"
    )
    (tmp_path / "database.env").write_text(
        "DB_CONNECTION=pgsql\nDB_HOST=db\nDB_PORT=5433\nDB_DATABASE=jobs\nDB_USERNAME=me\n"
        "DB_PASSWORD=p@ss:w/rd\nJOBAUTO_POOL=from-database\n"
    )
    key = tmp_path / "secret.key"
    url = "postgresql+psycopg://me:p%40ss%3Aw%2Frd@db:5433/jobs http://prefect:4200/api"
    assert _read(tmp_path) == f"from-database 7.0 {url} {key}"
    assert _read(tmp_path, JOBAUTO_POOL="mine") == f"mine 7.0 {url} {key}"


def test_without_files_everything_is_in_the_home(tmp_path: Path) -> None:
    expected = f"jobauto 30.0 sqlite:///{tmp_path}/ledger.db http://127.0.0.1:4200/api"
    assert _read(tmp_path) == f"{expected} {tmp_path}/secret.key"


def test_a_database_url_says_it_all(tmp_path: Path) -> None:
    url = "postgresql://me@db/jobs"
    settings = Settings(home=tmp_path, database_url=url, DB_CONNECTION="pgsql")  # type: ignore[call-arg]
    assert settings.ledger_url == "postgresql+psycopg://me@db/jobs"


def test_settings_that_cannot_be_read_are_all_named() -> None:
    with pytest.raises(InvalidInput) as caught:
        load_settings(lease_seconds="soon", api_port=70000)
    assert {fault.pointer for fault in caught.value.faults} == {"/lease_seconds", "/api_port"}
    assert "soon" not in str(caught.value)


@pytest.mark.parametrize("connection", ["oracle", "pgsql"])
def test_incomplete_database_settings_say_what_is_missing(connection: str) -> None:
    settings = Settings(DB_CONNECTION=connection)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match=r"DB_CONNECTION must be|DB_DATABASE has no value"):
        _ = settings.ledger_url


def test_trusted_proxies_are_addresses_and_ranges_with_commas(tmp_path: Path) -> None:
    (tmp_path / "jobauto.env").write_text("JOBAUTO_TRUSTED_PROXIES=10.0.0.0/8, ::1,192.168.1.7\n")
    code = (
        "from jobauto_prefect.settings import load_settings;print(*load_settings().trusted_proxies)"
    )
    environment = {"JOBAUTO_HOME": str(tmp_path), "JOBAUTO_CONFIG_DIR": str(tmp_path)}
    read = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    assert read.stdout.split() == ["10.0.0.0/8", "::1/128", "192.168.1.7/32"]


def test_a_proxy_that_is_no_address_is_named() -> None:
    with pytest.raises(InvalidInput, match="trusted_proxies"):
        load_settings(trusted_proxies="10.0.0.0/8,proxy.example")


def test_webhooks_go_to_addresses_of_the_web_each_once() -> None:
    both = "https://h.example/a?b=c, http://127.0.0.1:1880/x,https://h.example/a?b=c"
    urls = ("https://h.example/a?b=c", "http://127.0.0.1:1880/x")
    assert load_settings(webhook_urls=both).webhook_urls == urls
    for wrong in ("h.example", "ftp://h.example/", "https://me:pass@h.example/"):
        with pytest.raises(InvalidInput, match="webhook_urls"):
            load_settings(webhook_urls=wrong)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("timezone", zone) for zone in ("Europe/Prag", "right/UTC", "posixrules", "")),
        *(("language", code) for code in ("english", "e", "")),
        *(
            (name, address)
            for name in ("url", "prefect_api_url", "prefect_ui_url")
            for address in ("127.0.0.1:8000", "http://", "http://me:pw@host", "http://host:99999")
        ),
    ],
)
def test_a_wrong_zone_language_or_address_is_refused_when_settings_are_read(
    name: str, value: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_settings(**{name: value})
    (fault,) = caught.value.faults
    assert fault.pointer.lower() == f"/{name}"


def test_prefect_finds_its_settings_in_the_files_and_names_that_nobody_reads_are_named(
    tmp_path: Path,
) -> None:
    theirs = "postgresql+asyncpg://me:pw@db/prefect"
    (tmp_path / "database.env").write_text(
        f"PREFECT_API_DATABASE_CONNECTION_URL={theirs}\nDB_DATABSE=x\nJOBAUTO_POOL=p\nHOST=x\n"
    )
    (tmp_path / "jobauto.env").write_text(
        "PREFECT_API_DATABASE_CONNECTION_URL=sqlite+aiosqlite:///x\nPREFECT_LOGING_LEVEL=DEBUG\n"
    )
    show = (
        "from jobauto_prefect.engine.prefect_server.database import prefect_database_url as p;"
        "from jobauto_prefect.engine.prefect_server.process import prefect_names as n;"
        "from jobauto_prefect.settings import load_settings as l;"
        "from jobauto_prefect.cli.checks.setting_names import unread_names as u;"
        "print(p(l()), *u(n()), sep=chr(10))"
    )
    environment = {
        "JOBAUTO_HOME": str(tmp_path), "JOBAUTO_TIMEZON": "UTC", "PREFECT_LOGGING_ROOT_LEVEL": "x",
        "PREFECT_SERVER_ENCRYPTION_KEY": "x", "PREFECT_REDIS_MESSAGING_DB": "1", "PREFECT_API_URL": "http://127.0.0.1:4200/api",
        "PATH": os.environ["PATH"],
    }  # fmt: skip
    answer = subprocess.run(
        [sys.executable, "-c", show], env=environment, capture_output=True, text=True, check=True
    )
    url, *named = answer.stdout.splitlines()
    assert url == theirs
    assert named == [
        f"PREFECT_LOGING_LEVEL in {tmp_path}/jobauto.env is unknown;"
        " did you mean PREFECT_LOGGING_LEVEL?",
        f"DB_DATABSE in {tmp_path}/database.env is unknown; did you mean DB_DATABASE?",
        f"HOST in {tmp_path}/database.env is unknown; did you mean DB_HOST?",
        "JOBAUTO_TIMEZON in the environment is unknown; did you mean JOBAUTO_TIMEZONE?",
    ]


def test_folders_of_companies_are_not_named_by_slugs() -> None:
    with pytest.raises(InvalidInput, match="company_id"):
        load_settings(env_files=["/etc/jobauto/env/{company}"])
    assert load_settings(env_files=["/env/{company_id}"]).env_files == ("/env/{company_id}",)
