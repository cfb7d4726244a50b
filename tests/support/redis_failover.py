"""A Redis with a replica, and a Sentinel that promotes the replica once the primary is silent."""

import contextlib
from pathlib import Path

from redis import Redis

from tests.support.breakable import Part
from tests.support.container_engines import require
from tests.support.ports import free_port
from tests.support.processes import clean_environment
from tests.support.redis_server import PROGRAM

MASTER = "main"
SILENT_MILLISECONDS = 1000
"""After these Sentinel takes the primary for dead."""

FAILOVER_MILLISECONDS = 5000
SERVERS = ("redis-1", "redis-2")


class RedisFailover:
    """Its parts keep their roles when they are restarted: Sentinel writes their configuration."""

    def __init__(self, folder: Path) -> None:
        require(PROGRAM, "redis-server")
        self._ports = {name: free_port() for name in SERVERS}
        first, second = SERVERS
        memory = ('save ""', "maxmemory-policy noeviction", "repl-diskless-sync-delay 0")
        sentinel = free_port()
        self._sentinel = sentinel
        self.url = f"redis+sentinel://127.0.0.1:{sentinel}/{MASTER}/0"
        primary = f"127.0.0.1 {self._ports[first]}"
        self.parts = [
            self._part(folder, first, self._ports[first], *memory),
            self._part(folder, second, self._ports[second], *memory, f"replicaof {primary}"),
            self._part(
                folder,
                "sentinel",
                sentinel,
                f"sentinel monitor {MASTER} {primary} 1",
                f"sentinel down-after-milliseconds {MASTER} {SILENT_MILLISECONDS}",
                f"sentinel failover-timeout {MASTER} {FAILOVER_MILLISECONDS}",
            ),
        ]

    def _part(self, folder: Path, name: str, port: int, *lines: str) -> Part:
        own = folder / name
        own.mkdir()
        path = own / "redis.conf"
        path.write_text("\n".join(("bind 127.0.0.1", f"port {port}", f"dir {own}", *lines, "")))
        mode = ["--sentinel"] if name == "sentinel" else []
        return Part(name, [str(PROGRAM), str(path), *mode], clean_environment(), own / "log")

    def primary(self) -> str:
        """The name of the part that Sentinel says is the primary."""
        with contextlib.closing(Redis(port=self._sentinel)) as client:
            address = client.sentinel_get_master_addr_by_name(MASTER, return_responses=True)
        assert isinstance(address, tuple)
        return next(name for name, port in self._ports.items() if port == address[1])

    def has_replica(self) -> bool:
        """Whether the other one follows the primary, so that it can take its place."""
        with contextlib.closing(Redis(port=self._ports[self.primary()])) as client:
            replicas = client.info("replication")
        return any(
            isinstance(each, dict) and each.get("state") == "online" for each in replicas.values()
        )
