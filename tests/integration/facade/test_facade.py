"""The REST contract over a real port, on both databases."""

import base64
import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg
import pytest

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Company, Job, OutboxMessage, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from tests.support.claims import claim_of, deploy_template, granted
from tests.support.databases import POSTGRESQL, both_databases
from tests.support.definitions import PROBE
from tests.support.ledger_rows import fetch
from tests.support.records import make_template, ok
from tests.support.secrets import SECRET, secret
from tests.support.waits import eventually

PASSWORD = secret("kůň:long enough")


@pytest.mark.spec("4.5", "5.9", "7.2")
def test_only_ping_and_login_are_open(facade_url: str) -> None:
    assert ok(httpx.get(f"{facade_url}/api/v1/ping.json")) == {"ping": "pong"}
    for path in ("apps.json", "status", "status.json", "index.json", "job/1.json", "users.json"):
        answer = httpx.get(f"{facade_url}/api/v1/{path}")
        assert answer.status_code == 401, path
        schemes = [one.split()[0] for one in answer.headers.get_list("www-authenticate")]
        assert schemes == ["Bearer", "Basic"]
        assert set(answer.json()) == {"error", "message", "request_id"}


def test_the_status_says_why_changes_wait_for_prefect(rest: httpx.Client) -> None:
    assert ok(rest.get("/status.json"))["prefect_away"] is None
    make_template(rest)
    eventually(lambda: ok(rest.get("/status.json"))["prefect_away"])
    status = ok(rest.get("/status.json"))
    assert status["waiting_for_prefect"] > 0
    assert "does not answer" in status["prefect_away"]


def test_the_alias_serves_the_same(rest: httpx.Client) -> None:
    here = str(rest.base_url).rstrip("/")
    answer = rest.get(f"{here.removesuffix('/v1')}/apps.json")
    assert ok(answer) == {}


@pytest.mark.spec("5.1", "5.5", "5.6", "7.1")
def test_a_bad_bearer_token_never_falls_back_to_basic(rest: httpx.Client, facade_url: str) -> None:
    ok(
        rest.post("/user/", json={"login": "eva", "password": PASSWORD, "roles": ["super_admin"]}),
        201,
    )
    basic = base64.b64encode(f"eva:{PASSWORD}".encode()).decode()
    good = httpx.get(f"{facade_url}/api/v1/apps.json", headers={"Authorization": f"Basic {basic}"})
    assert good.status_code == 200
    for header in (
        "Bearer wrong",
        f"Bearer {basic}",
        "Bearer",
        "Basic !!",
        "Basic ZXZh",
        "Digest x",
        "",
    ):
        answer = httpx.get(f"{facade_url}/api/v1/apps.json", headers={"Authorization": header})
        assert answer.status_code == 401, header


def test_a_disabled_user_and_one_without_a_role_are_kept_out(
    rest: httpx.Client, facade_url: str
) -> None:
    ok(rest.post("/user/", json={"login": "eva", "password": PASSWORD}), 201)
    auth = ("eva", PASSWORD)
    assert httpx.get(f"{facade_url}/api/v1/apps.json", auth=auth).status_code == 403
    ok(rest.post("/user/", json={"login": "eva", "enabled": False}), 201)
    assert httpx.get(f"{facade_url}/api/v1/apps.json", auth=auth).status_code == 401


@pytest.mark.spec("4.49", "4.50", "5.10")
@pytest.mark.parametrize("how", ["json", "query", "basic", "login"])
def test_login_gives_a_token_that_works(rest: httpx.Client, facade_url: str, how: str) -> None:
    body = {"login": "eva", "password": PASSWORD, "roles": ["super_admin"]}
    ok(rest.post("/user/", json=body), 201)
    url = f"{facade_url}/api/v1/login.json"
    answer = {
        "json": lambda: httpx.post(url, json={"username": "eva", "password": PASSWORD}),
        "login": lambda: httpx.post(url, json={"login": "eva", "password": PASSWORD}),
        "query": lambda: httpx.post(url, params={"username": "eva", "password": PASSWORD}),
        "basic": lambda: httpx.get(url, auth=("eva", PASSWORD)),
    }[how]()
    token = ok(answer)["token"]
    signed_in = httpx.get(
        f"{facade_url}/api/v1/apps.json", headers={"Authorization": f"Bearer {token}"}
    )
    assert signed_in.status_code == 200
    wrong = httpx.post(url, json={"username": "eva", "password": "wrong"})
    unknown = httpx.post(url, json={"username": "nobody", "password": "wrong"})
    assert wrong.status_code == unknown.status_code == 401
    assert wrong.json()["message"] == unknown.json()["message"]


def test_an_application_comes_back_as_it_went_in(rest: httpx.Client) -> None:
    made = ok(rest.post("/app/", json=PROBE), 201)
    assert made["created"] is True
    read = ok(rest.get(f"/app/{made['id']}.json"))
    assert {name: read[name] for name in PROBE} == PROBE
    del read["rule_selectors"]  # of its own record alone
    assert ok(rest.get("/apps.json")) == {str(made["id"]): read}
    again = ok(rest.post("/app/", json={**PROBE, "version": "1.1"}), 201)
    assert (again["id"], again["created"], again["version"]) == (made["id"], False, "1.1")


def test_an_update_of_an_application_changes_only_the_fields_given(rest: httpx.Client) -> None:
    made = ok(rest.post("/app/", json=PROBE), 201)
    changed = ok(rest.post("/app/", json={"id": made["id"], "version": "2", "enabled": False}), 201)
    assert (changed["version"], changed["enabled"]) == ("2", False)
    assert changed["environment"] == PROBE["environment"]


def test_a_bad_definition_is_told_all_its_errors(rest: httpx.Client) -> None:
    bad = {**PROBE, "environment": {"a": {}, "B": {"type": "number"}}, "exitCodes": {"x": {}}}
    del bad["executable"]
    body = ok(rest.post("/app/", json=bad), 400)
    pointers = {fault["pointer"] for fault in body["details"]}
    assert {"", "/environment/B/type"} <= pointers
    assert len(body["details"]) >= 4
    assert ok(rest.get("/apps.json")) == {}


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/app/", b"{"),
        ("/app/", b"[]"),
        ("/app/", b'{"name": 1, "name": 2}'),
        ("/app/", b'{"name": NaN}'),
        ("/app/", b"\xff\xfe"),
        ("/company/", b'{"slug": "x y", "name": "n"}'),
        ("/company/", b'{"slug": "x", "name": "a\\u0000b"}'),
        ("/company/", b'{"slug": "x", "name": "n", "colour": 1}'),
        ("/company/", b"{}"),
        ("/company/", b'{"id": " "}'),
        ("/company/", b'{"id": true}'),
        ("/company/", b'{"slug": "x", "name": "n", "env": {"LD_PRELOAD": "x"}}'),
        ("/company/", b'{"slug": "x", "name": "n", "env": {"JOBAUTO_URL": "x"}}'),
        ("/runtemplate/", b'{"name": "x"}'),
        ("/runtemplate/", b'{"name": "x", "app_id": 1, "company_id": 1}'),
        ("/job/", b"{}"),
        ("/job/", b'{"runtemplate_id": " x"}'),
        ("/user/", b'{"login": "a:b"}'),
        ("/user/", b'{"login": "a", "roles": ["king"]}'),
    ],
)
def test_rubbish_is_a_clear_400(rest: httpx.Client, path: str, content: bytes) -> None:
    body = ok(rest.post(path, content=content), 400)
    assert body["details"]
    assert all({"pointer", "rule", "message"} <= set(fault) for fault in body["details"])


def test_what_is_not_there_is_a_404_and_what_is_not_spoken_a_406(rest: httpx.Client) -> None:
    assert rest.get("/app/77.json").status_code == 404
    assert rest.post("/app/", json={"id": 77, "version": "1"}).status_code == 404
    assert rest.post("/job/", json={"runtemplate_id": 77}).status_code == 404
    assert rest.get("/nothing").status_code == 404
    assert rest.get("/apps.pdf").status_code == 406
    assert rest.get("/app/x.json").status_code == 404
    assert rest.get("/job/x.json").status_code == 400
    assert rest.delete("/apps.json").status_code == 405


def test_companies_and_topics_lead_to_what_bears_their_tags_in_prefect(
    rest: httpx.Client,
) -> None:
    company = rest.post("/company/", json={"slug": "tagged", "name": "Tagged Ltd."}).json()
    topic = rest.post("/topic/", json={"name": "R & D"}).json()
    deployments = "/deployments?deployments.tags.name="
    assert company["prefect_url"].endswith(f"{deployments}company%3Atagged")
    assert topic["prefect_url"].endswith(f"{deployments}topic%3AR+%26+D")


def test_a_template_keeps_its_passwords_to_itself(rest: httpx.Client, ledger: Ledger) -> None:
    env = {"GREETING": "hi", "PASSWORD": SECRET, "TARGET": "x", "COUNT": 7}
    made = make_template(rest, env=env)
    assert made["env"] == {"COUNT": "7", "TARGET": "x", "GREETING": "hi", "PASSWORD": "********"}
    template = fetch(ledger, RunTemplate, made["id"])
    assert "PASSWORD" not in template.env
    assert ledger.box.open(template.secrets) == {"PASSWORD": SECRET}
    body = {"id": made["id"], "env": {"GREETING": None, "PASSWORD": "********", "LOUD": True}}
    changed = ok(rest.post("/runtemplate", json=body), 201)
    assert changed["env"] == {"COUNT": "7", "TARGET": "x", "LOUD": "true", "PASSWORD": "********"}
    template = fetch(ledger, RunTemplate, made["id"])
    assert ledger.box.open(template.secrets) == {"PASSWORD": SECRET}


def test_a_secret_said_again_is_no_change(rest: httpx.Client, ledger: Ledger) -> None:
    made = make_template(rest, env={"PASSWORD": SECRET})
    before = fetch(ledger, RunTemplate, made["id"]).secrets
    ok(rest.post("/runtemplate/", json={"id": made["id"], "env": {"PASSWORD": SECRET}}), 201)
    assert fetch(ledger, RunTemplate, made["id"]).secrets == before


def test_a_value_that_becomes_a_password_is_sealed(rest: httpx.Client, ledger: Ledger) -> None:
    made = make_template(rest, env={"GREETING": "was-plain-text"})
    ok(rest.post("/company/", json={"slug": "acme", "env": {"GREETING": "company-text"}}), 201)
    environment = {**PROBE["environment"], "GREETING": {"type": "password"}}
    ok(rest.post("/app/", json={**PROBE, "environment": environment}), 201)
    with ledger.reading() as session:
        template = session.get_one(RunTemplate, made["id"])
        assert template.env == {}
        assert ledger.box.open(template.secrets) == {"GREETING": "was-plain-text"}
        company = session.get_one(Company, template.company_id)
        assert (company.env, set(company.secrets)) == ({}, {"GREETING"})


def test_values_that_do_not_fit_their_type_are_refused(rest: httpx.Client) -> None:
    make_template(rest)
    body = {"company": "acme", "name": "daily", "env": {"COUNT": "many", "LOUD": "perhaps"}}
    faults = ok(rest.post("/runtemplate/", json=body), 400)["details"]
    assert {fault["pointer"] for fault in faults} == {"/env/COUNT", "/env/LOUD"}


def test_a_job_is_committed_before_prefect_knows_of_it(rest: httpx.Client, ledger: Ledger) -> None:
    made = make_template(rest)
    body = {"runtemplate_id": made["id"], "env": {"GREETING": "hi", "PASSWORD": SECRET}}
    job = ok(rest.post("/job/", json=body), 201)
    assert job["job_id"] == job["id"]
    assert (job["state"], job["begin"], job["end"], job["exitcode"]) == (
        "scheduled",
        None,
        None,
        None,
    )
    assert job["env"] == {"GREETING": "hi", "PASSWORD": "********"}
    with ledger.reading() as session:
        kinds = {message.kind for message in session.query(OutboxMessage)}
        assert SECRET not in repr(session.get_one(Job, job["id"]).overrides)
    assert "create_run" in kinds


def test_nothing_inactive_is_started(rest: httpx.Client) -> None:
    made = make_template(rest, active=False)
    assert rest.post("/job/", json={"runtemplate_id": made["id"]}).status_code == 409
    ok(rest.post("/runtemplate/", json={"id": made["id"], "active": True}), 201)
    ok(rest.post("/app/", json={"id": made["app_id"], "enabled": False}), 201)
    assert rest.post("/job/", json={"runtemplate_id": made["id"]}).status_code == 409


def test_a_waiting_job_can_be_cancelled_once(rest: httpx.Client) -> None:
    made = make_template(rest)
    job = ok(rest.post("/job/", json={"runtemplate_id": made["id"]}), 201)
    cancelled = ok(rest.post("/job/", json={"id": job["id"], "state": "cancelled"}), 201)
    assert cancelled["state"] == "cancelled"
    assert rest.post("/job/", json={"id": job["id"], "state": "cancelled"}).status_code == 409


def test_a_body_above_the_limit_is_refused(rest: httpx.Client) -> None:
    answer = rest.post("/company/", content=b"[" + b" " * (4 * 1024 * 1024 + 1))
    assert answer.status_code == 413


def test_a_workers_token_opens_nothing_of_the_contract(
    claims: httpx.Client, rest: httpx.Client, facade_url: str
) -> None:
    for path in ("apps.json", "jobs.json", "status"):
        assert claims.get(f"{facade_url}/api/v1/{path}").status_code == 403
    assert rest.post(f"{facade_url}/internal/v1/claims", json={}).status_code in (400, 403)
    assert (
        rest.post(
            f"{facade_url}/internal/v1/renewals", json={"worker": "w", "jobs": {}}
        ).status_code
        == 403
    )


@both_databases
def test_secrets_stay_out_of_every_answer_and_the_trail(rest: httpx.Client, ledger: Ledger) -> None:
    made = make_template(rest, env={"PASSWORD": SECRET})
    ok(
        rest.post(
            "/job/",
            json={"runtemplate_id": made["id"], "env": {"PASSWORD": secret("other-s3cret")}},
        ),
        201,
    )
    answers = [
        rest.get(path).text
        for path in ("/runtemplates.json", "/jobs.json", "/job/1.json", "/users.json")
    ]
    with ledger.engine.connect() as connection:
        answers += [
            repr(connection.exec_driver_sql(f"SELECT * FROM {table}").all())
            for table in ("audit_entry", "job", "runtemplate", "outbox_message")
        ]
    for text in answers:
        assert "s3cret" not in text


@contextlib.contextmanager
def _away(ledger: Ledger) -> Iterator[None]:
    """The ledger's database does not answer for a while."""
    url = ledger.engine.url
    name = url.database or ""
    ledger.engine.dispose()
    if url.drivername.startswith("sqlite"):
        Path(name).rename(f"{name}.away")
        Path(name).mkdir()
        yield
        Path(name).rmdir()
        Path(f"{name}.away").rename(name)
        return
    with psycopg.connect(POSTGRESQL, autocommit=True) as server:
        server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        server.execute(query, [name])
        yield
        server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


@contextlib.contextmanager
def _read_only(ledger: Ledger) -> Iterator[None]:
    """A database as a failover leaves it for some seconds."""
    name = ledger.engine.url.database
    with psycopg.connect(POSTGRESQL, autocommit=True) as server:

        def change(how: str) -> None:
            server.execute(f'ALTER DATABASE "{name}" {how}')
            query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
            server.execute(query, [name])

        change("SET default_transaction_read_only = on")
        yield
        change("RESET default_transaction_read_only")


def test_the_service_answers_503_while_the_ledger_takes_no_writes(
    rest: httpx.Client, ledger: Ledger, facade_url: str
) -> None:
    if ledger.engine.dialect.name != "postgresql":
        pytest.skip("PostgreSQL's")
    ok(rest.get("/companies.json"))
    with _read_only(ledger):
        answer = rest.post("/company/", json={"name": "Acme", "slug": "acme"})
        ping = httpx.get(f"{facade_url}/api/v1/ping.json")
        ok(rest.get("/companies.json"))
    assert (answer.status_code, ping.status_code) == (503, 503)
    assert "retry-after" in answer.headers
    assert ok(rest.post("/company/", json={"name": "Acme", "slug": "acme"}), 201)


@both_databases
def test_the_service_answers_503_while_the_ledger_is_away(
    rest: httpx.Client, ledger: Ledger, facade_url: str
) -> None:
    with ledger.writing(SERVICE) as session:
        session.add(Company(slug="x", name="x"))
    with _away(ledger):
        answer = rest.get("/companies.json")
        ping = httpx.get(f"{facade_url}/api/v1/ping.json")
    assert (answer.status_code, ping.status_code) == (503, 503)
    assert "retry-after" in answer.headers
    assert ok(rest.get("/companies.json"))


@pytest.mark.spec("1.3")
def test_a_definition_is_exported_byte_for_byte(rest: httpx.Client) -> None:
    raw = json.dumps(PROBE, indent=7, ensure_ascii=False).encode() + b"\n\n"
    made = ok(rest.post("/app/", content=raw), 201)
    assert rest.get(f"/app/{made['id']}/definition.json").content == raw
    ok(rest.post("/app/", json={"id": made["id"], "version": "1.4"}), 201)
    assert rest.get(f"/app/{made['id']}/definition.json").json() == {**PROBE, "version": "1.4"}


def test_a_definition_written_in_another_way_is_no_new_version(rest: httpx.Client) -> None:
    made = ok(rest.post("/app/", json=PROBE), 201)
    raw = json.dumps(PROBE, indent=3).encode()
    again = ok(rest.post("/app/", content=raw), 201)
    assert again["updated_at"] == made["updated_at"]
    assert rest.get(f"/app/{made['id']}/definition.json").content == raw
    assert ok(rest.get(f"/app/{made['id']}/versions.json")) == {}


def test_the_order_of_variables_and_the_type_of_a_default_are_changes(rest: httpx.Client) -> None:
    environment = PROBE["environment"]
    made = ok(rest.post("/app/", json=PROBE), 201)
    turned = {**PROBE, "environment": dict(reversed(environment.items()))}
    ok(rest.post("/app/", json=turned), 201)
    stored = ok(rest.get(f"/app/{made['id']}.json"))["environment"]
    assert list(stored) == list(reversed(environment))
    typed = {**turned, "environment": {**turned["environment"], "LOUD": {"defval": 0}}}
    ok(rest.post("/app/", json=typed), 201)
    typed["environment"] = {**typed["environment"], "LOUD": {"defval": False}}
    ok(rest.post("/app/", json=typed), 201)
    stored = ok(rest.get(f"/app/{made['id']}.json"))["environment"]
    assert stored["LOUD"]["defval"] is False
    assert len(ok(rest.get(f"/app/{made['id']}/versions.json"))) == 3


def test_an_older_version_is_taken_only_by_force_and_each_import_keeps_the_former(
    rest: httpx.Client,
) -> None:
    made = ok(rest.post("/app/", json={**PROBE, "version": "1.10"}), 201)
    older = {**PROBE, "version": "1.9"}
    assert rest.post("/app/", json=older).status_code == 409
    forced = ok(rest.post("/app/", params={"force": "true"}, json=older), 201)
    assert (forced["id"], forced["version"]) == (made["id"], "1.9")
    ok(rest.post("/app/", json=older), 201)
    versions = ok(rest.get(f"/app/{made['id']}/versions.json"))
    assert {number: one["version"] for number, one in versions.items()} == {"1": "1.10"}


def test_an_application_without_a_uuid_is_known_by_its_name(rest: httpx.Client) -> None:
    document = {name: value for name, value in PROBE.items() if name != "uuid"}
    first = ok(rest.post("/app/", json=document), 201)
    again = ok(rest.post("/app/", json={**document, "author": "me"}), 201)
    assert (first["id"], first["created"]) == (again["id"], not again["created"])


def test_the_errors_of_a_definition_have_their_line(rest: httpx.Client) -> None:
    raw = json.dumps({**PROBE, "version": "01"}, indent=1).encode()
    (fault,) = ok(rest.post("/app/", content=raw), 400)["details"]
    assert fault["pointer"] == "/version"
    assert b'"version"' in raw.splitlines()[fault["line"] - 1]


def test_every_unreadable_definition_says_where(rest: httpx.Client) -> None:
    (fault,) = ok(rest.post("/app/", content=b'{\n "name": "x",\n "name": }'), 400)["details"]
    assert (fault["rule"], fault["line"]) == ("syntax", 3)


def test_a_large_message_of_a_worker_does_not_stop_the_event_loop(
    rest: httpx.Client,
    claims: httpx.Client,
    ledger: Ledger,
    slow_callbacks: Callable[[], list[str]],
) -> None:
    deploy_template(rest, ledger)
    launch = granted(claims, claim_of())
    lines = {"stream": "stdout", "at": datetime.now(UTC).isoformat(), "texts": ["a line"] * 5000}
    output = [lines | {"seq": 1 + 5000 * number} for number in range(18)]
    body = {"claim_id": launch["claim_id"], "output": output}
    assert claims.post(f"/jobs/{launch['job_id']}/output", json=body).status_code == 204
    many = b"[" + b"[]," * 1_000_000 + b"0]"
    assert claims.post("/claims", content=many).status_code == 400
    assert claims.post("/claims", content=b"{").status_code == 400
    assert slow_callbacks() == []
