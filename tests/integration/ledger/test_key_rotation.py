"""A new key for all secret values: whole, resumed after a kill at any instant, or not at all."""

import random
import time
from pathlib import Path
from uuid import uuid4

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import select

from jobauto_prefect.errors import Conflict, KeyMissing
from jobauto_prefect.ledger import parts
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.key_rotation import rotate
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import Company, EventSource, PartRecord
from jobauto_prefect.ledger.secrets import load_key, rotation_lock
from jobauto_prefect.ledger.store import Ledger, prefect_key
from jobauto_prefect.settings import Settings
from tests.support.databases import both_databases
from tests.support.ledger_rows import entries, fetch_one
from tests.support.processes import forked
from tests.support.secrets import SECRET

pytestmark = both_databases

COMPANIES = 250  # several batches


def plant(ledger: Ledger) -> None:
    seal = ledger.box.seal
    with ledger.writing(SERVICE) as session:
        for number in range(COMPANIES):
            company = Company(slug=f"c{number}", name="C", env={})
            company.secrets = seal({"A": f"a-{number}", "B": f"b-{number}"})
            session.add(company)
        password = seal({"db_password": SECRET})["db_password"]
        session.add(EventSource(name="erp", db_database="d", db_password=password))


def values(ledger: Ledger) -> list[dict[str, str]]:
    with ledger.reading() as session:
        companies = session.scalars(select(Company).order_by(Company.id))
        found = [ledger.box.open(one.secrets) for one in companies]
        source = session.scalars(select(EventSource)).one()
        return [*found, ledger.box.open({"db_password": source.db_password or ""})]


def expected() -> list[dict[str, str]]:
    of_companies = [{"A": f"a-{number}", "B": f"b-{number}"} for number in range(COMPANIES)]
    return [*of_companies, {"db_password": SECRET}]


def key_entries(ledger: Ledger) -> int:
    return len(entries(ledger, "Key"))


def test_all_values_get_a_new_key_and_other_processes_follow(
    ledger: Ledger, ledger_settings: Settings
) -> None:
    plant(ledger)
    of_prefect = prefect_key(ledger)
    idle, busy = open_ledger(ledger_settings), open_ledger(ledger_settings)
    before = ledger_settings.key_path.read_bytes()
    done = rotate(ledger, SERVICE, 0)
    after = ledger_settings.key_path.read_bytes()
    assert done.resealed == 2 * COMPANIES + 2
    assert (len(after.split()), after != before) == (1, True)
    assert ledger_settings.key_path.stat().st_mode & 0o777 == 0o600
    rotate(busy, SERVICE, 0)
    for one in (ledger, idle, busy, open_ledger(ledger_settings)):
        assert values(one) == expected()
        assert prefect_key(one) == of_prefect
    assert key_entries(ledger) == 2
    with pytest.raises(KeyMissing):
        load_key(write_key(ledger_settings, "former.key", before)).open(sealed_of(ledger))


def sealed_of(ledger: Ledger) -> dict[str, str]:
    return fetch_one(ledger, select(Company).limit(1)).secrets


def write_key(settings: Settings, name: str, content: bytes) -> Path:
    path = settings.home / name
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def test_a_wrong_key_is_an_error_and_changes_nothing(
    ledger: Ledger, ledger_settings: Settings
) -> None:
    plant(ledger)
    path = ledger_settings.key_path
    right, wrong = path.read_bytes(), Fernet.generate_key()
    path.write_bytes(wrong)
    with pytest.raises(KeyMissing, match="no longer holds this ledger's key"):
        rotate(ledger, SERVICE, 0)
    with pytest.raises(KeyMissing, match="restore that file"):
        open_ledger(ledger_settings)
    assert path.read_bytes() == wrong
    path.write_bytes(right)
    assert values(ledger) == expected()


def test_a_value_no_key_opens_stops_the_rotation_before_it_begins(
    ledger: Ledger, ledger_settings: Settings
) -> None:
    plant(ledger)
    with ledger.writing(SERVICE) as session:
        foreign = Fernet(Fernet.generate_key()).encrypt(b"x").decode()
        session.add(Company(slug="odd", name="Odd", env={}, secrets={"A": foreign}))
    before = ledger_settings.key_path.read_bytes()
    with pytest.raises(KeyMissing, match="company 251, secrets"):
        rotate(ledger, SERVICE, 0)
    assert ledger_settings.key_path.read_bytes() == before
    assert key_entries(ledger) == 0


def test_the_old_key_stays_until_parts_on_other_machines_have_the_new_one(
    ledger: Ledger, ledger_settings: Settings
) -> None:
    plant(ledger)
    before = ledger_settings.key_path.read_bytes().split()
    part = PartRecord(instance=uuid4(), kind="facade", host="elsewhere", version="0.1.0")
    part.started_at, part.clock_ahead = ledger.clock(), 0.0

    def report(key: str) -> None:
        part.facts = {"key": key}
        with ledger.writing(SERVICE) as session:
            parts.report(session, part)

    report(ledger.box.fingerprint)
    for _ in range(2):
        with pytest.raises(Conflict, match=r"over the key files on elsewhere, and repeat"):
            rotate(ledger, SERVICE, 0)
        assert ledger_settings.key_path.read_bytes().split()[1:] == before
        assert values(ledger) == expected()
    report(ledger.box.fingerprint)
    assert rotate(ledger, SERVICE, 0).resealed == 2 * COMPANIES + 1
    assert len(ledger_settings.key_path.read_bytes().split()) == 1
    assert values(ledger) == expected()


def test_one_rotation_at_a_time(ledger: Ledger, ledger_settings: Settings) -> None:
    with rotation_lock(ledger_settings.key_path), pytest.raises(Conflict):
        rotate(ledger, SERVICE, 0)


def _rotate_all(settings: Settings) -> None:
    rotate(open_ledger(settings), SERVICE, 0.3)


def test_killed_at_any_instant_the_same_command_goes_on(
    ledger: Ledger, ledger_settings: Settings
) -> None:
    plant(ledger)
    first = ledger_settings.key_path.read_bytes()
    interrupted, random_ = 0, random.Random(7)
    for _ in range(6):
        process = forked(_rotate_all, ledger_settings)
        until = time.monotonic() + 90
        while process.is_alive() and time.monotonic() < until:
            if ledger_settings.key_path.read_bytes() != first:
                break
            time.sleep(0.005)
        time.sleep(random_.random() * 0.4)
        process.kill()
        process.join()
        interrupted += len(ledger_settings.key_path.read_bytes().split()) == 2
        assert values(ledger) == expected()
        first = ledger_settings.key_path.read_bytes()
        if interrupted == 1:  # what is written meanwhile is sealed with the newest key
            with ledger.writing(SERVICE) as session:
                company = session.scalars(select(Company).where(Company.slug == "c0")).one()
                company.secrets = ledger.box.seal({"A": "a-0", "B": "b-0"})
    assert interrupted
    _rotate_all(ledger_settings)
    assert len(ledger_settings.key_path.read_bytes().split()) == 1
    assert values(ledger) == expected()
    assert values(open_ledger(ledger_settings)) == expected()
