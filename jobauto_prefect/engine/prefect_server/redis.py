"""Redis, through which several Prefect servers share their work: Prefect's settings, checks."""

from collections.abc import Mapping
from importlib import metadata

from jobauto_prefect.errors import NotReady
from jobauto_prefect.settings import Settings

SOCKET_SECONDS = 5
"""How long Prefect waits for Redis; longer than the second for which its consumers let it block."""

DOCKET_NAME = "PREFECT_SERVER_DOCKET_NAME"


def redis_environment(
    settings: Settings, inherited: Mapping[str, str], *, with_services: bool
) -> dict[str, str]:
    """Return what Prefect needs in its environment to share its work through Redis.

    Without JOBAUTO_REDIS_URL that is nothing.

    Raises:
        NotReady: prefect-redis is not installed.
    """
    if settings.redis_url is None:
        return {}
    _require_package()
    url = settings.redis_url.get_secret_value()
    # A server takes any task of its docket and drops what it does not know: one without the
    # services must not share the docket of those that have them.
    docket = inherited.get(DOCKET_NAME, "prefect-server") + ("-services" if with_services else "")
    return {
        "PREFECT_MESSAGING_BROKER": "prefect_redis.messaging",
        "PREFECT_MESSAGING_CACHE": "prefect_redis.messaging",
        "PREFECT_SERVER_EVENTS_CAUSAL_ORDERING": "prefect_redis.ordering",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect_redis.lease_storage",
        "PREFECT_SERVER_WORKER_CHANNEL_CLEANUP_QUEUE_STORAGE": "prefect_redis.cleanup_queue",
        "PREFECT_SERVER_DOCKET_URL": url,
        **{
            f"PREFECT_REDIS_{group}_{name}": value
            for group in ("MESSAGING", "WORKER_CLEANUP_QUEUE")
            for name, value in (
                ("URL", url),
                ("SOCKET_TIMEOUT", str(SOCKET_SECONDS)),
                ("SOCKET_CONNECT_TIMEOUT", str(SOCKET_SECONDS)),
            )
        },
        **inherited,
        DOCKET_NAME: docket,
    }


def _require_package() -> None:
    """Require prefect-redis, without importing it: that would import Prefect."""
    try:
        version = metadata.version("prefect-redis")
    except metadata.PackageNotFoundError:
        version = "0.0"
    if tuple(map(int, version.split(".")[:2])) < (0, 3):
        raise NotReady(
            "JOBAUTO_REDIS_URL needs the package prefect-redis 0.3:"
            " pip install 'jobauto-prefect[redis]'"
        )


async def eviction_policy(settings: Settings) -> str | None:
    """Return what Redis does when its memory is full; None without JOBAUTO_REDIS_URL.

    Raises:
        NotReady: Redis does not answer, or prefect-redis is not installed.
    """
    if settings.redis_url is None:
        return None
    _require_package()
    from prefect_redis.connection import aclose_redis_client, redis_from_url
    from redis.exceptions import RedisError

    client = redis_from_url(
        settings.redis_url.get_secret_value(),
        asynchronous=True,
        socket_timeout=SOCKET_SECONDS,
        socket_connect_timeout=SOCKET_SECONDS,
    )
    try:
        return str((await client.info("memory")).get("maxmemory_policy"))
    except (RedisError, OSError) as error:
        raise NotReady(
            f"Redis does not answer ({error}); start it, or correct JOBAUTO_REDIS_URL"
        ) from None
    finally:
        await aclose_redis_client(client)
