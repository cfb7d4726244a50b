"""JOBAUTO_REDIS_URL alone makes Prefect's servers share their work."""

import os
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from docket import Docket
from docket.dependencies import current_worker
from prefect.server.api import background_workers
from prefect.settings import PREFECT_SERVER_DOCKET_URL, temporary_settings
from prefect.settings import Settings as PrefectSettings
from prefect_redis.cleanup_queue import RedisWorkerCleanupQueueSettings
from prefect_redis.client import RedisMessagingSettings
from prefect_redis.messaging import RedisMessagingConsumerSettings
from pydantic_settings import BaseSettings

from jobauto_prefect.cli.service.stages import LEDGER_ONLY
from jobauto_prefect.engine.prefect_server.app import TAKEOVER, take_over_soon
from jobauto_prefect.engine.prefect_server.redis import redis_environment
from jobauto_prefect.errors import InvalidInput, NotReady
from jobauto_prefect.settings import Settings, load_settings
from jobauto_prefect.variables import adopt_prefect_settings
from tests.support.secrets import SECRET

URL = f"rediss://jobauto:{SECRET}@redis.example.org:6380/4"


def environment(home: Path, *, with_services: bool = True, **inherited: str) -> Mapping[str, str]:
    settings = load_settings([], home=home, redis_url=URL)
    return redis_environment(settings, inherited, with_services=with_services)


def kept_in_a_process(model: type[BaseSettings], path: tuple[str, ...] = ()) -> Iterator[Any]:
    """The paths of the settings by whose default each process has something of its own."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseSettings):
            yield from kept_in_a_process(field.annotation, (*path, name))
        elif re.search(r"\.memory$|^memory:", str(field.default)):
            yield (*path, name)


def test_nothing_of_the_installed_prefect_stays_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    settings, paths = PrefectSettings(), list(kept_in_a_process(PrefectSettings))
    assert ("server", "docket", "url") in paths
    values = {path: reduce(getattr, path, settings) for path in paths}
    assert {path: value for path, value in values.items() if "memory" in str(value)} == {}
    for kind in (RedisMessagingSettings, RedisWorkerCleanupQueueSettings):
        own = kind()
        assert own.url == URL
        assert own.socket_connect_timeout
        assert own.socket_timeout > RedisMessagingConsumerSettings().block.total_seconds()


def test_what_is_set_for_prefect_itself_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {
        "PREFECT_SERVER_EVENTS_MESSAGING_BROKER": "own.broker",
        "PREFECT_SERVER_DOCKET_URL": "redis://elsewhere",
        "PREFECT_REDIS_MESSAGING_SOCKET_TIMEOUT": "60",
    }
    for name, value in environment(tmp_path, **own).items():
        monkeypatch.setenv(name, value)
    server = PrefectSettings().server
    assert server.events.messaging_broker == "own.broker"
    assert server.docket.url == "redis://elsewhere"
    assert RedisMessagingSettings().socket_timeout == 60


def test_servers_without_the_services_have_another_docket(tmp_path: Path) -> None:
    for own in ({}, {"PREFECT_SERVER_DOCKET_NAME": "ours"}):
        names = {
            environment(tmp_path, with_services=there, **own)["PREFECT_SERVER_DOCKET_NAME"]
            for there in (True, False)
        }
        assert len(names) == 2


async def test_prefects_own_worker_takes_over_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_workers, "Worker", background_workers.Worker)
    with temporary_settings({PREFECT_SERVER_DOCKET_URL: "redis://localhost"}):
        take_over_soon()
    async with (
        Docket(name="test", url="memory://") as docket,
        background_workers.background_worker(docket, webserver_only=True),
    ):
        assert current_worker.get().redelivery_timeout == TAKEOVER


def test_the_package_must_be_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = tmp_path / "prefect_redis-0.2.12.dist-info"
    older.mkdir()
    (older / "METADATA").write_text("Name: prefect-redis\nVersion: 0.2.12\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NotReady, match=r"pip install 'jobauto-prefect\[redis\]'"):
        environment(tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://127.0.0.1:6379/15?health_check_interval=5",
        "rediss://user:p%40ss@[::1]:6380/0",
        "redis+sentinel://:pass@one:26379,two:26379,[::1]/mymaster/3?sentinel_password=x",
        "rediss+sentinel://one/mymaster",
    ],
)
def test_urls_that_prefect_can_use_are_taken(url: str) -> None:
    redis_url = load_settings([], redis_url=url).redis_url
    assert redis_url is not None
    assert redis_url.get_secret_value() == url


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"redis+cluster://:{SECRET}@one:6379", "Prefect can't use Redis Cluster"),
        (f"redis://:{SECRET}/word@localhost:6379/0", "letters and digits as %XX"),
        (f"redis://:{SECRET}@word@localhost:6379/0", "letters and digits as %XX"),
        (f"redis://{SECRET}:/0", "must be a URL"),
        (f"redis+sentinel://:{SECRET}@one:26379,two:26379", "redis\\+sentinel://HOST:26379"),
        (f"https://{SECRET}", "must be a URL"),
    ],
)
def test_others_are_refused_without_being_shown(url: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason) as caught:
        load_settings([], redis_url=url)
    assert SECRET not in str(caught.value)


def test_the_url_is_a_secret() -> None:
    assert SECRET not in repr(Settings(redis_url=URL))  # type: ignore[arg-type]


def test_workers_are_not_given_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "database.env").write_text(f"PREFECT_REDIS_MESSAGING_URL={URL}\n")
    monkeypatch.setenv("JOBAUTO_CONFIG_DIR", str(tmp_path))
    before = dict(os.environ)
    adopt_prefect_settings(of_server=False)
    assert dict(os.environ) == before
    (tmp_path / "database.env").unlink()
    assert "JOBAUTO_REDIS_URL" in LEDGER_ONLY
