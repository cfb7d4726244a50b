"""A Redis of a test's own."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from redis import Redis
from redis.exceptions import ConnectionError as NoAnswer

from tests.support.container_engines import require
from tests.support.ports import free_port
from tests.support.secrets import SECRET
from tests.support.waits import eventually

PROGRAM = shutil.which("redis-server")


@contextlib.contextmanager
def redis_server(folder: Path, policy: str = "noeviction") -> Iterator[str]:
    """The URL of a Redis with a password; `policy`: what it does when its memory is full."""
    require(PROGRAM, "redis-server")
    port = free_port()
    settings = f"""
        bind 127.0.0.1
        port {port}
        dir {folder}
        save ""
        maxmemory-policy {policy}
        requirepass {SECRET}
    """
    process = subprocess.Popen(
        [str(PROGRAM), "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None
    with process, process.stdin:
        process.stdin.write(settings)
        process.stdin.close()
        url = f"redis://:{SECRET}@127.0.0.1:{port}/3"
        try:
            eventually(lambda: _answers(url))
            yield url
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    with contextlib.closing(Redis.from_url(url)) as client, contextlib.suppress(NoAnswer):
        return bool(client.ping())
    return False
