"""How-to pages that need more than this machine has: what they name is a stand-in here.

Mail goes to a real SMTP server of the tests, Slack is a receiver of webhooks, Vault and the cluster
speak the protocols of theirs, `helm` writes down how it is called, and Podman is real.
"""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import sql
from sqlalchemy import make_url

from tests.support.container_engines import EXECUTOR_SETTINGS, IMAGE, podman
from tests.support.databases import POSTGRESQL, postgresql
from tests.support.guides import (
    PAGES,
    Command,
    File,
    Shell,
    environment_of,
    follow,
    make_acme,
    real_addresses,
    steps,
)
from tests.support.helm import Helm
from tests.support.kubernetes.api import SimulatedCluster
from tests.support.mail_server import MailServer, mail_server
from tests.support.service import Service
from tests.support.vault import TOKEN, vault
from tests.support.waits import eventually
from tests.support.webhook_receiver import Receiver, receiver


@dataclass(frozen=True, slots=True)
class World:
    """The service of the company `acme`, and all that stands in."""

    service: Service
    mail: MailServer
    slack: Receiver
    vault: str
    helm: Helm

    def follow(self, name: str, **real: str) -> None:
        """Do what a page says; `real`: more of what is here in place of what it says."""
        replaced = real_addresses(self.service) | real
        with Shell(self.service.home.parent, environment_of(self.service)) as shell:
            for step in steps(PAGES[name]):
                follow(name, step, shell, replaced)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    person = tmp_path_factory.mktemp("stand-ins")
    helm = Helm(person / "helm")
    with ExitStack() as stack:
        mail, slack = stack.enter_context(mail_server()), stack.enter_context(receiver())
        store, engine = stack.enter_context(vault()), stack.enter_context(podman())
        cluster = stack.enter_context(SimulatedCluster(("default", "erp")))
        store.secrets["secret/acme/bank"] = {"BANK_PIN": "0815-4711"}
        service = Service(
            person / ".jobauto",
            HOME=str(person),
            JOBAUTO_SMTP_HOST="127.0.0.1",
            JOBAUTO_SMTP_PORT=str(mail.port),
            JOBAUTO_SMTP_TLS="none",
            JOBAUTO_SMTP_FROM="jobauto@acme.example",
            JOBAUTO_NOTICE_SECONDS="1",
            JOBAUTO_VAULTS=store.url,
            JOBAUTO_PODMAN_URL=engine.url,
            KUBECONFIG=str(cluster.kubeconfig(person / "kubeconfig")),
            LANG="C.UTF-8",
            TZ="UTC",
        )
        service.environment["PATH"] = f"{helm.place}:{service.environment['PATH']}"
        service.start()
        try:
            make_acme(service)
            yield World(service, mail, slack, store.url, helm)
        finally:
            service.stop()


def test_a_failure_reaches_people_by_mail_and_in_slack(world: World) -> None:
    world.follow("mail-and-chat-on-failure", **{"https://hooks.slack.example": world.slack.url})

    def arrived() -> bool:
        mails = "".join(map(str, world.mail.mails))
        texts = "".join(one.content.decode() for one in world.slack.received)
        return all("The shop does not answer" in text for text in (mails, texts))

    eventually(arrived, 60)
    assert set(world.mail.recipients) == {"ops@acme.example"}


def test_a_job_gets_its_secret_from_vault(world: World) -> None:
    world.follow(
        "secrets-from-vault",
        **{"https://vault.acme.example:8200": world.vault, "hvs.of-the-vault": TOKEN},
    )


def test_a_job_runs_in_a_container(world: World) -> None:
    limits = ", ".join(f'{key}: "{value}"' for key, value in EXECUTOR_SETTINGS["ulimits"].items())
    here = f"network: none\n  runtime: {EXECUTOR_SETTINGS['runtime']}\n  ulimits: {{{limits}}}"
    world.follow(
        "run-in-a-container",
        **{"docker.io/library/busybox:1.37": IMAGE, "network: none": here},
    )


def test_a_job_runs_in_a_pod_after_its_release_was_installed(world: World) -> None:
    world.follow("run-in-a-pod-with-helm")
    [call] = world.helm.calls
    assert {"upgrade", "--install", "price-cache"} <= set(call["argv"])


def test_the_service_moves_to_postgresql(world: World, tmp_path: Path) -> None:
    """The last test: it stops the service, and starts it on other databases."""
    name, mine = "sqlite-to-postgresql", f"jobauto_test_{uuid.uuid4().hex}"
    server = make_url(POSTGRESQL)
    real = {one: f"{mine}{one}" for one in ("jobauto_ledger", "jobauto_prefect")}
    real |= {"postgres@127.0.0.1": f"{server.username}@{server.host}", "5432": str(server.port)}
    login = {"PGHOST": server.host, "PGPORT": str(server.port), "PGUSER": server.username}
    environment = environment_of(world.service) | {k: v for k, v in login.items() if v}
    *before, move, doctor, verify = steps(PAGES[name])

    def follow_some(*some: File | Command) -> None:
        with Shell(world.service.home.parent, environment) as shell:
            for step in some:
                follow(name, step, shell, real)

    with postgresql() as connection:
        try:
            follow_some(*before)
            world.service.stop()
            eventually(lambda: not world.service.processes(), 30)
            follow_some(move)
            world.service.start()
            follow_some(doctor, verify)
        finally:
            world.service.stop()
            eventually(lambda: not world.service.processes(), 30)
            for one in ("jobauto_ledger", "jobauto_prefect"):
                drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
                connection.execute(drop.format(sql.Identifier(f"{mine}{one}")))
