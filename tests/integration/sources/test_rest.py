"""Event sources over REST."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import EventSource
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.poller import Poller
from tests.support.adapters import AdapterDatabase
from tests.support.ports import free_port
from tests.support.secrets import SECRET
from tests.support.servers import client, facade, user_token


@pytest.mark.spec("4.42")
def test_a_source_can_be_tested(rest: httpx.Client, sqlite_adapter: AdapterDatabase) -> None:
    source = rest.post("/eventsource/", json=sqlite_adapter.as_source("changes")).json()
    answer = rest.post(f"/eventsource/{source['id']}/test.json")
    assert answer.json() == {
        "reachable": True,
        "message": "changes_cache can be read; none wait",
    }
    assert rest.post("/eventsource/999/test.json").status_code == 404


def test_a_wrong_password_is_said_and_not_shown(rest: httpx.Client) -> None:
    body = {"name": "wrong", "db_database": "d", "db_username": "u", "db_password": SECRET}
    source = rest.post("/eventsource/", json=body).json()
    answer = rest.post(f"/eventsource/{source['id']}/test.json")
    assert answer.json()["reachable"] is False
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"db_host": "169.254.169.254"}, "/db_host"),
        ({"db_host": "/var/run/mysqld.sock"}, "/db_host"),
        ({"db_connection": "sqlite", "db_database": "relative.db"}, "/db_database"),
    ],
)
def test_a_target_that_may_not_be_used_is_refused(
    rest: httpx.Client, members: dict[str, Any], pointer: str
) -> None:
    answer = rest.post("/eventsource/", json={"name": "s", "db_database": "d"} | members)
    assert answer.status_code == 400
    assert answer.json()["details"][0]["pointer"] == pointer


def test_a_list_limits_what_sources_may_use(
    ledger: Ledger, facade_settings: Settings, sqlite_adapter: AdapterDatabase
) -> None:
    body = sqlite_adapter.as_source("changes")
    folder = str(Path(sqlite_adapter.target.database).parent)
    for allowed, status in (((folder,), 201), (("10.0.0.0/8",), 400)):
        limited = facade_settings.model_copy(
            update={"event_source_targets": allowed, "url": f"http://127.0.0.1:{free_port()}"}
        )
        with facade(limited, ledger) as url:
            token = user_token(ledger, f"root{status}")
            with client(f"{url}/api/v1", token) as rest:
                assert rest.post("/eventsource/", json=body).status_code == status


def test_where_reading_begins_is_kept_apart_from_where_it_is(
    rest: httpx.Client, ledger: Ledger, sqlite_adapter: AdapterDatabase
) -> None:
    source = rest.post("/eventsource/", json=sqlite_adapter.as_source("s", last_processed_id=5))
    with ledger.writing(SERVICE) as session:
        kept = session.get_one(EventSource, source.json()["id"])
        assert (kept.start_after, kept.last_processed_id) == (5, 5)
        kept.last_processed_id = 9
    shown = rest.get(f"/eventsource/{source.json()['id']}.json").json()
    assert (shown["last_processed_id"], shown["consume"], shown["polled_at"]) == (9, "delete", None)


def test_a_change_that_cannot_be_kept_is_named_by_the_test_of_its_source(
    rest: httpx.Client, ledger: Ledger, facade_settings: Settings, sqlite_adapter: AdapterDatabase
) -> None:
    source = rest.post("/eventsource/", json=sqlite_adapter.as_source("changes")).json()["id"]
    with sqlite_adapter.engine.begin() as connection:
        context = r'{"a": "\ud83d"}'
        insert = "INSERT INTO changes_cache (inversion, context) VALUES (7, :context)"
        connection.execute(text(insert), {"context": context})
    reason = "context/a has a character that can't be kept (U+0000 or half of a surrogate pair)"
    test = f"/eventsource/{source}/test.json"
    waiting = f"changes_cache can be read; changes wait; change 7 can't be kept: {reason}"
    assert rest.post(test).json() == {"reachable": True, "message": waiting}
    Poller(ledger, facade_settings).read(source)
    (event,) = rest.get("/events.json?state=dead").json().values()
    assert (event["inversion"], event["error"], event["emission_error"]) == (7, reason, reason)
    assert rest.get(f"/event/{event['id']}.json").json()["data"]["context"] == context
    dead = f"changes_cache can be read; none wait; change 7 is a dead letter (event 1): {reason}"
    assert rest.post(test).json() == {"reachable": True, "message": dead}
    again = rest.post(f"/event/{event['id']}/replay.json", json={})
    assert (again.status_code, reason in again.text) == (409, True)


def test_numbers_of_a_change_are_shown_with_their_digits(
    rest: httpx.Client, ledger: Ledger, facade_settings: Settings, sqlite_adapter: AdapterDatabase
) -> None:
    source = rest.post("/eventsource/", json=sqlite_adapter.as_source("changes")).json()["id"]
    with sqlite_adapter.engine.begin() as connection:
        context = '{"total":1500.00,"sum":12345678901234567.89}'
        insert = "INSERT INTO changes_cache (inversion, context) VALUES (7, :context)"
        connection.execute(text(insert), {"context": context})
    Poller(ledger, facade_settings).read(source)
    assert context in rest.get("/event/1.json").text
