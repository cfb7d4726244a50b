"""A POST that is repeated with its key: in real transactions, at once, and after a crash."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jobauto_prefect.errors import InProgress, InvalidInput, KeyReused
from jobauto_prefect.facade.http.idempotency import REPLAYED, IdempotentRequest, idempotent_request
from jobauto_prefect.ledger.audit.trail import Actor
from jobauto_prefect.ledger.idempotency import KEPT, delete_expired
from jobauto_prefect.ledger.records import Company, IdempotencyRecord
from jobauto_prefect.ledger.store import Ledger
from tests.support.databases import both_databases
from tests.support.ledger_rows import count_rows, fetch_all

EVA = Actor(name="eva", door="rest", user_id=7)
BODY = b'{"slug": "acme"}'


def _once(
    key: str = "k1",
    *,
    actor: Actor = EVA,
    route: str = "write company",
    query: str = "",
    body: bytes = BODY,
) -> IdempotentRequest:
    headers = [(b"idempotency-key", key.encode("latin-1"))]
    scope = {"type": "http", "headers": headers, "query_string": query.encode()}
    request = idempotent_request(Request(scope), actor, route, body)
    assert request is not None
    return request


def _write(ledger: Ledger, request: IdempotentRequest, slug: str = "acme") -> Response:
    """What a route does: make a company, and answer 201."""
    with ledger.writing(EVA) as session:
        again = request.stored_response(session)
        if again is not None:
            return again
        company = Company(slug=slug, name=slug)
        session.add(company)
        session.flush()
        headers = {"Location": f"/company/{company.id}", "X-Request-ID": "first"}
        answer = JSONResponse({"id": company.id}, 201, headers)
        request.store(session, answer)
    return answer


def _shown(answer: Response) -> tuple[int, bytes, str]:
    return answer.status_code, bytes(answer.body), answer.headers["location"]


@both_databases
def test_the_second_request_has_the_first_answer_and_changes_nothing(ledger: Ledger) -> None:
    first = _write(ledger, _once())
    second = _write(ledger, _once())
    assert _shown(first) == _shown(second)
    assert second.headers["content-type"] == "application/json"
    assert (REPLAYED in first.headers, second.headers[REPLAYED]) == (False, "true")
    assert "x-request-id" not in second.headers
    assert count_rows(ledger, Company) == 1


def test_without_a_key_every_request_is_done_and_no_answer_kept(
    rest: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    jobs = [rest.post("/job/", json={"runtemplate_id": template["id"]}) for _ in range(2)]
    assert len({job.raise_for_status().json()["id"] for job in jobs}) == 2
    assert count_rows(ledger, IdempotencyRecord) == 0


@pytest.mark.parametrize("change", [{"body": b"{}"}, {"body": b""}, {"query": "companyId=1"}])
def test_another_request_under_the_same_key_is_refused(
    ledger: Ledger, change: Mapping[str, bytes | str]
) -> None:
    _write(ledger, _once())
    with pytest.raises(KeyReused) as caught:
        _write(ledger, _once(**change), "umbrella")  # type: ignore[arg-type]
    assert [fault.pointer for fault in caught.value.faults] == ["/Idempotency-Key"]
    assert count_rows(ledger, Company) == 1


def test_what_is_in_the_query_is_not_what_is_in_the_body() -> None:
    assert _once(query="a=1", body=b"").digest != _once(query="", body=b"a=1").digest
    assert _once(query="a=1&b=2").digest == _once(query="b=2&a=1").digest


@pytest.mark.parametrize(
    "other",
    [
        {"actor": replace(EVA, user_id=8)},
        {"actor": Actor(name="os:eva", door="cli")},
        {"route": "write user"},
        {"key": "k2"},
    ],
)
def test_a_key_counts_for_one_actor_and_one_route(
    ledger: Ledger, other: Mapping[str, object]
) -> None:
    _write(ledger, _once())
    _write(ledger, _once(**other), "umbrella")  # type: ignore[arg-type]
    assert count_rows(ledger, Company) == 2


def test_a_user_who_is_renamed_keeps_their_keys(ledger: Ledger) -> None:
    _write(ledger, _once())
    renamed = _once(actor=replace(EVA, name="evita", door="cli"))
    assert REPLAYED in _write(ledger, renamed).headers


def test_what_failed_has_no_answer_and_is_done_when_it_comes_again(ledger: Ledger) -> None:
    class CrashError(Exception):
        pass

    with pytest.raises(CrashError), ledger.writing(EVA) as session:
        assert _once().stored_response(session) is None
        session.add(Company(slug="acme", name="acme"))
        _once().store(session, JSONResponse({}, 201))
        session.flush()
        raise CrashError
    assert (count_rows(ledger, Company), count_rows(ledger, IdempotencyRecord)) == (0, 0)
    assert REPLAYED not in _write(ledger, _once()).headers
    assert count_rows(ledger, Company) == 1


@both_databases
def test_a_second_request_during_the_first_waits_or_is_told_to(ledger: Ledger) -> None:
    """SQLite's writers come one after another; PostgreSQL's second one is told to come again."""
    waits = ledger.engine.dialect.name == "sqlite"
    with ThreadPoolExecutor(1) as pool:
        with ledger.writing(EVA) as session:
            assert _once().stored_response(session) is None
            second = pool.submit(_write, ledger, _once())
            if not waits:
                with pytest.raises(InProgress) as caught:
                    second.result()
                assert caught.value.retry_after >= 1
                _write(ledger, _once("k2"), "umbrella")
            _once().store(session, JSONResponse({"id": 1}, 201, {"Location": "/company/1"}))
        if waits:
            assert REPLAYED in second.result().headers
    assert REPLAYED in _write(ledger, _once()).headers


@both_databases
def test_many_requests_at_once_do_it_once(ledger: Ledger) -> None:
    begun = Barrier(8)

    def ask(_number: int) -> str:
        begun.wait()
        try:
            answer = _write(ledger, _once())
        except InProgress:
            return "in progress"
        return "again" if REPLAYED in answer.headers else "first"

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert answers.count("first") == 1
    assert count_rows(ledger, Company) == 1
    assert REPLAYED in _write(ledger, _once()).headers


def test_an_answer_is_kept_for_a_day(ledger: Ledger) -> None:
    _write(ledger, _once())
    now = ledger.clock()
    ledger.clock = lambda: now + KEPT - timedelta(minutes=1)
    assert REPLAYED in _write(ledger, _once()).headers
    ledger.clock = lambda: now + KEPT + timedelta(minutes=1)
    assert REPLAYED not in _write(ledger, _once(body=b"{}"), "umbrella").headers
    assert REPLAYED in _write(ledger, _once(body=b"{}")).headers
    assert count_rows(ledger, IdempotencyRecord) == 1


@both_databases
def test_old_answers_are_forgotten_and_younger_ones_kept(ledger: Ledger) -> None:
    now = ledger.clock()
    ledger.clock = lambda: now
    _write(ledger, _once("old"))
    ledger.clock = lambda: now + timedelta(hours=1)
    _write(ledger, _once("young"), "umbrella")
    ledger.clock = lambda: now + KEPT
    with ledger.writing(EVA) as session:
        delete_expired(session)
    assert fetch_all(ledger, select(IdempotencyRecord.key)) == ["young"]


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "\xe9", "a\x7f"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        _once(key)
    assert [fault.pointer for fault in caught.value.faults] == ["/Idempotency-Key"]


def test_two_keys_are_one_too_many() -> None:
    headers = [(b"idempotency-key", b"a"), (b"idempotency-key", b"b")]
    scope = {"type": "http", "headers": headers, "query_string": b""}
    with pytest.raises(InvalidInput):
        idempotent_request(Request(scope), EVA, "write company", b"")
