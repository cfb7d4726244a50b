"""An installation as on many machines: each part several times, behind haproxy, with Redis."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.monitoring.ports import Part as ManagementPart
from jobauto_prefect.settings import Settings
from tests.support.breakable import Part, Relay
from tests.support.clocks import Clock
from tests.support.databases import database
from tests.support.haproxy import Balancer, is_ready
from tests.support.installation import Installation, end_sessions, started
from tests.support.namespaces import Wire, wire_if_allowed
from tests.support.paths import JOBAUTO
from tests.support.ports import free_port, free_range
from tests.support.processes import clean_environment
from tests.support.redis_failover import RedisFailover
from tests.support.servers import worker_token

MACHINES = ("1", "2")  # with a facade, services and both kinds of Prefect servers each
WORKERS = {"worker-1": "town", "worker-2": "town", "worker-3": "village"}
"""Their work pools."""

FAR = "worker-3"
"""It has a network of its own, where this machine lets us make one."""

VILLAGE = frozenset({"chained", "failing"})
"""The templates of the load whose jobs are in the second pool."""


OFFSETS = {
    "facade": ManagementPart.FACADE,
    "prefect": ManagementPart.PREFECT,
    "services": ManagementPart.SERVICES,
    "worker": ManagementPart.WORKER,
}
"""Of the management port of each part, by how its name begins."""


class ManyMachines:
    """The parts, and what only this topology has; `wire` leads to the far worker."""

    def __init__(
        self,
        ledger_url: str,
        prefect_url: str,
        home: Path,
        lease_seconds: float,
        wire: Wire | None,
    ) -> None:
        for folder in ("marks", "bin", "config"):
            (home / folder).mkdir()
        self._home, self._databases, self.wire = home, (ledger_url, prefect_url), wire
        self._ports: dict[str, int] = {}
        self._management: dict[str, int] = {}
        self.redis = RedisFailover(home)
        self.clock = Clock(home)  # of the second machine's Prefect servers
        servers = {
            kind: [self._server(f"{kind}-{machine}") for machine in MACHINES]
            for kind in ("facade", "prefect-api")
        }
        further = [wire.near] if wire else []
        self.balancer = Balancer(home, servers["facade"], servers["prefect-api"], further)
        if wire:
            wire.carry(self.balancer.port)
        self.settings = Settings(
            home=home,
            database_url=ledger_url,
            url=self.balancer.url,
            prefect_api_url=f"{self.balancer.prefect_url}/api",
            pool="town",
            lease_seconds=lease_seconds,
        )
        create_key(self.settings.key_path)

    def _server(self, name: str) -> tuple[int, int]:
        """A port and a management port for a part that haproxy asks."""
        self._ports[name] = free_port()
        return self._ports[name], self._managed(name)

    def _managed(self, name: str) -> int:
        """The management port of a part, on a range of its own as on a machine of its own."""
        if name not in self._management:
            first = free_range()
            kind = next(kind for kind in OFFSETS if name.startswith(kind))
            self._management[name] = first + OFFSETS[kind]
        return self._management[name]

    def unready(self) -> list[str]:
        """The parts that do not say that they are ready."""
        hosts = {FAR: self.wire.far} if self.wire else {}
        return [
            name
            for name, port in self._management.items()
            if not is_ready(hosts.get(name, "127.0.0.1"), port)
        ]

    def cut_databases(self) -> None:
        """End every session of the ledger and of Prefect's database, as a restart would."""
        for url in self._databases:
            end_sessions(url)

    def parts(self, token: str, relay: Relay) -> dict[str, Part]:
        """All processes; the first worker reaches the facades through the relay."""
        settings, (ledger_url, prefect_url) = self.settings, self._databases
        trusting = clean_environment() | {
            "SSL_CERT_FILE": str(self.balancer.certificate),
            "JOBAUTO_URL": settings.url,
            "PREFECT_API_URL": settings.prefect_api_url,
            "PREFECT_LOGGING_LEVEL": "WARNING",
        }
        ours = trusting | {
            "JOBAUTO_HOME": str(self._home),
            "JOBAUTO_CONFIG_DIR": str(self._home / "config"),
            "JOBAUTO_DATABASE_URL": ledger_url,
            "JOBAUTO_DATABASE_CONNECTIONS": "8",  # PostgreSQL allows 100
            "JOBAUTO_POOL": settings.pool,
            "JOBAUTO_LEASE_SECONDS": str(settings.lease_seconds),
            "JOBAUTO_REDIS_URL": self.redis.url,
            "JOBAUTO_TRUSTED_PROXIES": "127.0.0.1",
            "PREFECT_API_DATABASE_CONNECTION_URL": prefect_url.replace("://", "+asyncpg://"),
        }

        def part(name: str, *words: str, prefix: Sequence[str] = (), **variables: str) -> Part:
            environment = (trusting if name.startswith("worker") else ours) | variables
            kind = next(kind for kind in OFFSETS if name.startswith(kind))
            environment["JOBAUTO_MANAGEMENT_PORT"] = str(self._managed(name) - OFFSETS[kind])
            return Part(name, [*prefix, JOBAUTO, *words], environment, self._home / f"{name}.log")

        made = [*self.redis.parts, self.balancer.part]
        for number in MACHINES:
            clock = self.clock.variables if number == MACHINES[-1] else {}
            facade, api = f"facade-{number}", f"prefect-api-{number}"
            prefect = ("prefect", "start", "--role")
            made += [
                part(facade, "api", "start", JOBAUTO_API_PORT=str(self._ports[facade])),
                part(api, *prefect, "api", JOBAUTO_PREFECT_PORT=str(self._ports[api]), **clock),
                part(f"prefect-services-{number}", *prefect, "services", **clock),
                part(f"services-{number}", "services", "start"),
            ]
        for name, pool in WORKERS.items():
            own_home = {"JOBAUTO_HOME": str(self._home / name), "JOBAUTO_WORKER_TOKEN": token}
            if name == "worker-1":
                own_home["JOBAUTO_URL"] = f"https://127.0.0.1:{relay.port}"
            words = ("worker", "start", "--pool", pool, "--name", name)
            prefix: Sequence[str] = ()
            if name == FAR and self.wire:
                prefix = self.wire.prefix
                own_home["JOBAUTO_MANAGEMENT_HOST"] = "0.0.0.0"
            made.append(part(name, *words, prefix=prefix, **own_home))
        return {each.name: each for each in made}


@contextmanager
def many_machines(
    ledger_url: str, home: Path, lease_seconds: float
) -> Iterator[tuple[Installation, ManyMachines]]:
    """Run it; the ledger has its tables already, Prefect gets a database of its own."""
    with ExitStack() as stack:
        prefect_url = stack.enter_context(database("postgresql", home))
        wire = stack.enter_context(wire_if_allowed())
        machines = ManyMachines(ledger_url, prefect_url, home, lease_seconds, wire)
        os.environ["SSL_CERT_FILE"] = str(machines.balancer.certificate)  # of the test's clients
        stack.callback(os.environ.pop, "SSL_CERT_FILE")
        ledger = open_ledger(machines.settings)
        stack.callback(ledger.close)
        relay = stack.enter_context(Relay(machines.balancer.port))
        token = worker_token(ledger, *set(WORKERS.values()))
        parts = machines.parts(token, relay)
        yield stack.enter_context(started(machines.settings, ledger, parts, relay)), machines
