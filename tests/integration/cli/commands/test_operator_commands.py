"""`jobauto doctor`, `top`, `job retry` and the lists, as operators use them."""

import json
import shlex
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from jobauto_prefect.cli.checks import examination
from jobauto_prefect.ledger.audit.seals import Sealer
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs.workers import Registration, WorkerRecord, register
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import Company, CredentialType, Job, RunTemplate
from jobauto_prefect.settings import Settings
from tests.support.documents import smallest
from tests.support.homes import Home, InProcessHome
from tests.support.ledger_rows import fetch
from tests.support.ports import free_port
from tests.support.redis_server import redis_server
from tests.support.secrets import SECRET
from tests.support.servers import facade, prefect_client

ENVIRONMENT = {"COUNT": {"type": "integer"}, "KEY": {"type": "password"}}
DEFINITION = smallest(name="Probe", environment=ENVIRONMENT)
POOL = "operators"


@pytest.fixture(autouse=True)
def _patient_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for whoever is busy; a `Date` that was made a while ago is no wrong clock."""
    monkeypatch.setattr(examination, "TIMEOUT_SECONDS", 60)
    monkeypatch.setattr(examination, "CLOCK_TOLERANCE", timedelta(seconds=60))


@pytest.fixture
def home(tmp_path: Path, prepared_home: Path, prefect_server: str) -> Home:
    """A home with two companies and a run template each."""
    prefect = prefect_client(prefect_server)
    for deployment in prefect.post("/deployments/filter", json={}).json():  # of former tests
        prefect.delete(f"/deployments/{deployment['id']}")
    shutil.copytree(prepared_home, tmp_path / "home")
    home = InProcessHome(tmp_path)
    home.environment |= {
        "PREFECT_API_URL": prefect_server,
        "JOBAUTO_POOL": POOL,
        "JOBAUTO_URL": f"http://127.0.0.1:{free_port()}",
    }
    (tmp_path / "all.json").write_text(
        json.dumps(
            [
                DEFINITION,
                {"kind": "company", "slug": "acme", "name": "Acme"},
                {"kind": "company", "slug": "other", "name": "Other"},
                {"kind": "runtemplate", "company": "acme", "app": "Probe", "name": "One"},
                {"kind": "runtemplate", "company": "other", "app": "Probe", "name": "Two"},
            ]
        )
    )
    applied = home.run("apply", "all.json", "--yes")
    assert applied.returncode == 0, applied.stderr
    return home


def checks(home: Home, code: int) -> dict[str, list[dict[str, Any]]]:
    """What the doctor says, by the name of the check."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in home.told("doctor", code=code)["checks"]:
        found.setdefault(one["name"], []).append(one)
    return found


@pytest.fixture
def served(home: Home) -> Iterator[Home]:
    """The same, with its facade running."""
    settings = Settings(
        home=Path(home.environment["JOBAUTO_HOME"]),
        url=home.environment["JOBAUTO_URL"],
        prefect_api_url=home.environment["PREFECT_API_URL"],
        pool=POOL,
    )
    ledger = open_ledger(settings)
    with facade(settings, ledger):
        yield home
    ledger.close()


def test_the_doctor_lists_values_under_names_that_no_job_is_given(home: Home) -> None:
    (home.path / "more.json").write_text(
        json.dumps({"kind": "credential_type", "code": "Bank", "name": "Bank", "fields": []})
    )
    assert home.run("apply", "more.json", "--yes").returncode == 0
    assert checks(home, code=1)["environment"][0]["status"] == "ok"
    ledger = open_ledger(Settings(home=Path(home.environment["JOBAUTO_HOME"])))
    with ledger.writing(SERVICE) as session:
        session.get_one(Company, 1).env = {"BASH_ENV": "x", "ANY": "y"}
        session.get_one(RunTemplate, 1).env = {"COUNT": "1", "CONT": "2"}
        session.get_one(CredentialType, 1).fields = [{"keyword": "HOME", "type": "string"}]
    ledger.close()
    home.environment["JOBAUTO_EXTRA_ENV"] = "TRACE_ID, PS4"

    found = checks(home, code=1)["environment"]
    assert {one["status"] for one in found} == {"warning"}
    assert [one["message"] for one in found[:3]] == [
        "company acme has values that no job gets: BASH_ENV",
        "credential type Bank has values that no job gets: HOME",
        "run template acme/One has values that no job gets: CONT",
    ]
    assert "JOBAUTO_EXTRA_ENV" in found[3]["message"]
    assert "PS4" in found[3]["message"]
    assert found[0]["fix"].startswith("jobauto company set acme --unset BASH_ENV")
    assert home.run("template", "set", "acme/One", "active=false").returncode == 0
    asked = home.run("template", "set", "acme/One", "--env", "COUNT=2")
    assert asked.returncode == 1
    assert "did you mean 'COUNT'?" in asked.stderr
    started = home.run("run", "other/Two", "--env", "CONT=2")
    assert started.returncode == 1
    assert "did you mean 'COUNT'?" in started.stderr
    unset = home.run("template", "set", "acme/One", "--unset", "CONT", "--env", "COUNT=2")
    assert unset.returncode == 0, unset.stderr
    assert home.run("company", "set", "acme", "--unset", "BASH_ENV").returncode == 0
    assert len(checks(home, code=1)["environment"]) == 2


def test_the_doctor_finds_an_audit_trail_whose_end_was_changed(home: Home) -> None:
    assert checks(home, code=1)["audit"][0]["status"] == "ok"
    ledger = open_ledger(Settings(home=Path(home.environment["JOBAUTO_HOME"])))
    assert Sealer(ledger).seal()
    assert checks(home, code=1)["audit"][0]["message"].endswith("(seal 1)")
    with ledger.engine.begin() as connection:
        connection.execute(text("DROP TRIGGER audit_entry_no_update"))
        connection.execute(text("UPDATE audit_entry SET actor = 'nobody'"))
    ledger.close()
    (found,) = checks(home, code=1)["audit"]
    assert (found["status"], found["fix"]) == ("wrong", "details: jobauto audit verify")
    assert "an entry or the seal was changed" in found["message"]


def test_a_worker_whose_clock_is_wrong_is_named_with_the_difference(served: Home) -> None:
    ledger = open_ledger(Settings(home=Path(served.environment["JOBAUTO_HOME"])))
    with ledger.writing(SERVICE) as session:
        for name, ahead in (("late", -120.04), ("right", 0.9)):
            start = Registration(name, POOL, "host", uuid4())
            register(session, start, [POOL], lease_seconds=30)
            session.flush()
            session.get_one(WorkerRecord, name).clock_ahead = ahead
    ledger.close()
    hindrance = "its clock is 120.0 s behind the ledger's"
    rows = {row.split()[0]: row for row in served.run("worker", "list").stdout.splitlines()}
    assert hindrance in rows["late"]
    assert "clock" not in rows["right"]
    (found,) = (clock for clock in checks(served, code=1)["clock"] if clock["status"] != "ok")
    assert found["status"] == "warning"
    assert "worker late on host is 120.0 s behind the ledger's" in found["message"]
    assert "chrony" in found["fix"]
    topology = served.run("doctor", "--topology", "--json")
    assert found in json.loads(topology.stdout)["checks"], topology.stderr


def test_the_doctor_names_what_is_wrong_and_the_command_that_helps(served: Home) -> None:
    prefect = prefect_client(served.environment["PREFECT_API_URL"])

    before = checks(served, code=1)
    heard = {"name": "w1", "heartbeat_interval_seconds": 30}
    prefect.post(f"/work_pools/{POOL}/workers/heartbeat", json=heard).raise_for_status()
    well = checks(served, code=0)
    prefect.patch(f"/work_pools/{POOL}", json={"is_paused": True}).raise_for_status()
    paused = checks(served, code=1)
    prefect.patch(f"/work_pools/{POOL}", json={"is_paused": False}).raise_for_status()
    served.environment["PREFECT_API_URL"] = f"http://127.0.0.1:{free_port()}/api"
    away = checks(served, code=1)
    folder = Path(served.environment["JOBAUTO_HOME"])
    (folder / "copy.db").touch(0o644)
    open_ = checks(served, code=1)
    key = folder / "secret.key"
    key.unlink()
    keyless = checks(served, code=1)

    assert before["workers"][0]["status"] == "wrong"
    assert before["workers"][0]["fix"] == f"jobauto worker start --pool {POOL}"
    # This process serves the facade: no part reports itself.
    found = [one for name, all_ in well.items() for one in all_ if name not in ("trust", "parts")]
    assert [one for one in found if one["status"] != "ok"] == []
    assert {*well} >= {
        "database",
        "migrations",
        "key",
        "home",
        "facade",
        "Prefect",
        "clock",
        "work pools",
        "audit",
    }
    assert "companies run as one user" in well["trust"][0]["message"]
    assert paused["work pools"][0]["fix"] == f"prefect work-pool resume '{POOL}'"
    assert away["Prefect"][0]["status"] == "wrong"
    assert "jobauto prefect start" in away["Prefect"][0]["fix"]
    assert open_["home"][0]["status"] == "warning"
    assert open_["home"][0]["fix"] == f"chmod go= {folder / 'copy.db'}"
    assert keyless["key"][0]["status"] == "wrong"
    assert keyless["key"][0]["fix"] == "restore your copy of it"


def test_the_doctor_names_a_deployment_of_no_run_template(served: Home) -> None:
    prefect = prefect_client(served.environment["PREFECT_API_URL"])
    flow = prefect.post("/flows/", json={"name": "of somebody"}).raise_for_status().json()["id"]
    body = {"name": "a copy", "flow_id": flow, "work_pool_name": POOL}
    made = prefect.post("/deployments/", json=body).raise_for_status().json()["id"]

    ran = json.loads(served.run("doctor", "--json").stdout)
    found = [finding for finding in ran["checks"] if finding["name"] == "drift"]

    prefect.delete(f"/deployments/{made}")
    (named,) = (finding for finding in found if made in finding["message"])
    assert named["status"] == "warning"
    assert f"in work pool {POOL} belongs to no run template: its runs fail" in named["message"]
    assert named["fix"].startswith(f"prefect deployment delete {made}")


def test_the_doctor_of_an_empty_home_says_what_to_run_first(tmp_path: Path) -> None:
    home = InProcessHome(tmp_path)
    nothing = checks(home, code=1)
    assert "there is no installation in" in nothing["database"][0]["message"]
    assert "jobauto up" in nothing["database"][0]["fix"]
    assert not list(Path(home.environment["JOBAUTO_HOME"]).glob("ledger.db*"))
    home.run("secrets", "init")

    found = checks(home, code=1)

    assert found["migrations"][0]["fix"] == "jobauto db upgrade"
    assert found["facade"][0]["status"] == "wrong"


def test_an_untested_prefect_is_named_by_the_doctor_and_by_each_part_that_starts(
    tmp_path: Path,
) -> None:
    (tmp_path / "prefect-3.10.2.dist-info").mkdir()
    metadata = "Metadata-Version: 2.4\nName: prefect\nVersion: 3.10.2\n"
    (tmp_path / "prefect-3.10.2.dist-info" / "METADATA").write_text(metadata)
    home, said = (
        InProcessHome(tmp_path),
        "Prefect 3.10.2 is not tested with jobauto; 3.8 and 3.9 are",
    )

    (tested,) = checks(home, code=1)["Prefect version"]
    untested = Home.run(home, "doctor", "--json", PYTHONPATH=str(tmp_path))
    part = Home.run(home, "worker", "start", "--pool", "p", PYTHONPATH=str(tmp_path))

    assert tested["status"] == "ok"
    found = {check["name"]: check for check in json.loads(untested.stdout)["checks"]}
    assert found["Prefect version"]["message"] == said
    assert found["Prefect version"]["status"] == "warning"
    assert part.stderr.count(said) == 1


def test_the_doctor_says_whether_redis_answers_and_keeps_its_keys(tmp_path: Path) -> None:
    home = InProcessHome(tmp_path)
    found = []
    for policy in ("noeviction", "allkeys-lru"):
        with redis_server(tmp_path, policy) as url:
            home.environment["JOBAUTO_REDIS_URL"] = url
            found += checks(home, code=1)["Redis"]
            if policy == "noeviction":
                home.environment["JOBAUTO_REDIS_URL"] = url.replace("redis://:", "redis://:x")
                found += checks(home, code=1)["Redis"]
    found += checks(home, code=1)["Redis"]  # it has ended
    told = [(one["status"], one["message"].partition(" (")[0]) for one in found]
    assert told == [
        ("ok", "answers, and keeps its keys when its memory is full"),
        ("wrong", "Redis does not answer"),
        ("warning", "it deletes keys when its memory is full"),
        ("wrong", "Redis does not answer"),
    ]
    assert "allkeys-lru" in found[2]["message"]
    assert SECRET not in json.dumps(found)


def test_lists_take_the_filters_of_the_rest_contract_and_the_columns_asked_for(home: Home) -> None:
    home.run("template", "set", "other/Two", "active=false")

    of_acme = home.told("template", "list", "--company", "acme", "--app", "Probe")
    inactive = home.told("template", "list", "--not-active")
    chosen = home.run("template", "list", "--active", "--columns", "name,interv,company")
    newest = home.run("company", "list", "--limit", "1")
    unknown = home.run("template", "list", "--columns", "nothing")
    nobody = home.run("template", "list", "--company", "nobody")

    assert [one["name"] for one in of_acme.values()] == ["One"]
    assert [one["name"] for one in inactive.values()] == ["Two"]
    assert chosen.stdout == "name  interv  company\nOne   n       acme\n"
    assert newest.stdout.splitlines()[1].split()[1] == "other"
    assert "these are the newest 1; more with --limit" in newest.stderr
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "there is no column 'nothing'" in unknown.stderr
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert nobody.stderr == "error: there is no company 'nobody'; see: jobauto company list\n"
    for wrong in ("abc", "0", "1.5"):
        logs = home.run("job", "logs", wrong)
        assert logs.returncode == 2
        said = " ".join(logs.stderr.replace("│", " ").split())
        assert f"'{wrong}' is not a number; find it with: jobauto job list" in said
    assert home.run("job", "logs", "acme/One").stderr == (
        "error: acme/One has no job yet; start one: jobauto run acme/One\n"
    )
    started = [home.told("run", "acme/One")["id"] for _ in range(2)]
    assert home.told("job", "show", "acme/One")["id"] == started[-1]
    assert home.told("job", "cancel", "acme/One")["id"] == started[-1]
    meant = home.run("run", "acme/Onne").stderr
    assert "no run template 'acme/Onne'; did you mean 'acme/One'? see: jobauto template" in meant
    assert "did you mean 'Probe'?" in home.run("app", "show", "Prob").stderr


def test_a_job_that_is_over_runs_once_more_with_its_own_values(home: Home) -> None:
    first = home.told("run", "acme/One", "--env", "COUNT=7", "--env", f"KEY={SECRET}")
    early = home.run("job", "retry", str(first["id"]))
    home.told("job", "cancel", str(first["id"]))

    again = home.told("job", "retry", str(first["id"]))
    other = home.run("job", "retry", str(first["id"]))

    assert early.returncode == 1
    assert "cancel it first" in early.stderr
    assert again["env"] == {"COUNT": "7", "KEY": "********"}
    assert (again["attempt"], again["retry_of"]) == (2, first["id"])
    assert other.returncode == 1
    assert f"job {again['id']} already retries it" in other.stderr
    ledger = open_ledger(Settings(home=Path(home.environment["JOBAUTO_HOME"])))
    job = fetch(ledger, Job, again["id"])
    assert ledger.box.open(job.override_secrets) == {"KEY": SECRET}
    ledger.close()


def test_top_shows_queue_and_workers_once_where_there_is_no_terminal(home: Home) -> None:
    job = home.told("run", "acme/One")

    shown = home.run("top")
    looked = home.told("top")

    assert "Queue (1)" in shown.stdout
    assert "acme/One" in shown.stdout
    assert POOL in shown.stdout
    assert [one["id"] for one in looked["queue"]] == [job["id"]]
    assert looked["pools"][POOL]["exists"] is True


def test_a_record_is_created_changed_and_deleted_by_its_name(home: Home) -> None:
    made = home.told(
        "template", "create", "acme/Three", "app=Probe", "interv=h", "--env", "COUNT=2"
    )
    twice = home.run("template", "create", "acme/Three", "app=Probe")
    wrong = home.run("template", "set", "acme/Three", "interv=often", "--env", "COUNT=many")
    unknown = home.run("template", "set", "acme/Three", "colour=red")
    changed = home.told("template", "set", "acme/Three", "note=Hello", "--unset", "COUNT")
    asked = home.run("template", "delete", "acme/Three")
    home.told("template", "delete", "acme/Three", "--yes")
    gone = home.run("template", "show", "acme/Three")

    assert (made["interv"], made["env"]) == ("h", {"COUNT": "2"})
    assert "such a run template already exists" in twice.stderr
    assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)
    assert "'often' is not one of" in wrong.stderr
    assert unknown.returncode == 2
    assert (changed["note"], changed["interv"], changed["env"]) == ("Hello", "h", {})
    assert asked.returncode == 2
    assert gone.returncode == 1
    assert "there is no run template 'acme/Three'" in gone.stderr


def test_the_shell_completes_names_of_records(home: Home) -> None:
    def completed(*words: str) -> list[str]:
        asked = {
            "_JOBAUTO_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(("jobauto", *words)),
            "COMP_CWORD": str(len(words)),
        }
        home.environment |= asked
        done = home.run()
        for name in asked:
            del home.environment[name]
        return done.stdout.split()

    assert completed("run", "ac") == ["acme/One"]
    assert completed("company", "show", "") == ["acme", "other"]
    assert completed("app", "show", "Pro") == ["Probe"]
    assert completed("run", "--url", "http://127.0.0.1:9", "ac") == []


def test_suggested_rules_are_commands_to_copy(home: Home, tmp_path: Path) -> None:
    emits = {"events": {"emits": {"bill.written": {}}}}
    fields = {"total": {"type": "float"}}
    produces = {"bills": {"format": "json", "fields": fields}}
    consumes = {"events": {"consumes": {"bill.written": {"description": "A bill is there"}}}}
    environment = {"TOTAL": {"type": "float"}, "FILE": {"type": "file-path"}}
    records: list[Any] = [
        DEFINITION | emits | {"name": "Write", "produces": produces},
        DEFINITION | consumes | {"name": "Read", "environment": environment},
        {"kind": "runtemplate", "company": "acme", "app": "Write", "name": "Write bills"},
        {"kind": "runtemplate", "company": "acme", "app": "Read", "name": "Read"},
    ]
    (tmp_path / "chain.json").write_text(json.dumps(records))
    assert home.run("apply", "chain.json", "--yes").returncode == 0

    mapping = home.run("rule", "suggest", "acme/Write bills", "acme/Read")
    assert "TOTAL  bills.total" in mapping.stdout
    offered = home.run("rule", "suggest", "acme/Read").stdout.splitlines()
    assert "acme/Write bills ends with success" in offered[1]
    (command,) = (line for line in offered if line.startswith("jobauto "))
    assert command in mapping.stderr
    made = home.run(*shlex.split(command)[1:])
    assert made.returncode == 0, made.stderr
    (rule,) = home.told("rule", "list").values()
    assert rule["env_mapping"] == {"TOTAL": "bills.total"}
    again = home.run("rule", "suggest", "acme/Read")
    assert (again.returncode, again.stdout) == (0, "")
    assert "or the rule exists" in again.stderr


def test_a_freeze_is_begun_shown_and_ended(home: Home) -> None:
    frozen = home.run("pause", "--reason", "new disk", "--until", "+2h")
    assert frozen.returncode == 0, frozen.stderr
    assert frozen.stdout.startswith("frozen until ")
    checks = json.loads(home.run("doctor", "--json").stdout)["checks"]
    (finding,) = (one for one in checks if one["name"] == "maintenance")
    assert finding["status"] == "warning"
    assert finding["message"].startswith("maintenance: new disk; nothing starts until ")
    assert finding["fix"] == "to end it: jobauto resume"
    assert json.loads(home.run("top", "--json").stdout)["maintenance"]["reason"] == "new disk"
    assert "FROZEN: new disk" in home.run("top").stdout
    wrong = home.run("pause", "--until", "soon")
    assert wrong.returncode == 1
    assert "'soon' is not a time; write " in wrong.stderr
    assert home.run("resume").stdout == "no longer frozen\n"
    assert json.loads(home.run("resume", "--json").stdout) == {
        "frozen": False,
        "was_frozen": False,
    }
