"""Many records at once: what a plan finds on each of its pages, and what others notice of it."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from jobauto_prefect.facade.apply import writer, yaml_parser
from jobauto_prefect.facade.apply.contents import MOST_RECORDS
from jobauto_prefect.facade.http.errors import MOST_TOLD
from jobauto_prefect.ledger.store import Ledger
from tests.support.databases import on_sqlite
from tests.support.definitions import PROBE
from tests.support.records import ok
from tests.support.servers import client, manager_token, user_token

PAGE, COUNT = 20, 50


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "PAGE", PAGE)


@pytest.fixture
def rest(facade_url: str, ledger: Ledger) -> Iterator[httpx.Client]:
    """The contract; large answers are not held to the document, which takes long."""
    with client(f"{facade_url}/api/v1", user_token(ledger)) as signed_in:
        yield signed_in


def template(number: int, **more: Any) -> dict[str, Any]:
    named = {"kind": "runtemplate", "company": "acme", "app": "Probe", "name": f"T{number:04}"}
    return {**named, "env": {"GREETING": f"hello {number}"}, **more}


def chain(number: int) -> dict[str, Any]:
    """Each starts the one that comes after it, on whichever page."""
    following = {"runtemplate": f"acme/T{number + 1:04}"}
    return {"success": {"ChainRuntemplate": following}} if number % 40 else {}


def asked(*records: Any, **more: Any) -> dict[str, Any]:
    return {"files": [{"name": "all.json", "text": json.dumps(records)}], **more}


def plan(rest: httpx.Client, status: int = 200, **body: Any) -> Any:
    return ok(rest.post("/apply.json", json=body), status)


COMPANY = {"kind": "company", "slug": "acme", "name": "Acme", "labels": ["set"]}


@pytest.fixture
def transactions(ledger: Ledger) -> list[int]:
    """How many statements that write each transaction has; asked for before the facade begins."""
    written = [0]

    def begun(_connection: Any) -> None:
        written.append(0)

    def executed(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        written[-1] += statement.startswith(("UPDATE", "INSERT", "DELETE"))

    event.listen(ledger.engine, "begin", begun)
    event.listen(ledger.engine, "before_cursor_execute", executed)
    return written


def test_a_plan_locks_a_page_of_records_and_is_that_of_all(
    transactions: list[int], rest: httpx.Client
) -> None:
    templates = [template(number, **chain(number)) for number in range(COUNT)]
    new = asked(PROBE, COMPANY, *templates, template(COUNT), labels=["set"])
    made = plan(rest, **new)
    plan(rest, **new, digest=made["digest"])
    changed = [{**each, "note": "changed"} for each in templates]
    transactions[:] = [0]
    again = plan(rest, **asked(PROBE, COMPANY, *changed, labels=["set"]))

    assert made["counts"]["create"] == COUNT + 3
    assert again["counts"]["update"] == COUNT
    assert sum(transactions) >= COUNT
    assert max(transactions) < COUNT, "more than a page at once"


def test_what_is_wrong_is_found_on_each_page_and_nothing_else(rest: httpx.Client) -> None:
    taken = {"executor": "NoSuch"}
    templates = [
        template(number, **(taken if number in (3, COUNT - 1) else {})) for number in range(COUNT)
    ]
    refused = plan(rest, 400, **asked(PROBE, COMPANY, *templates))

    places = [fault["pointer"].split("/")[1] for fault in refused["details"]]
    assert places == ["executor", "executor"], refused


def test_deletions_are_planned_after_those_of_what_needs_them(rest: httpx.Client) -> None:
    every = asked(PROBE, COMPANY, *map(template, range(COUNT)), labels=["set"])
    plan(rest, **every, auto_approve=True)
    other = {"kind": "company", "slug": "other", "name": "Other"}
    pruned = plan(rest, **asked(other, labels=["set"], prune=True))

    assert pruned["counts"]["delete"] == COUNT + 2
    done = plan(rest, **asked(other, labels=["set"], prune=True), digest=pruned["digest"])
    assert done["applied"] is True


@on_sqlite
def test_who_may_write_nothing_is_told_so_before_the_files_are_read(
    facade_url: str, ledger: Ledger
) -> None:
    with client(f"{facade_url}/api/v1", user_token(ledger, "eve", ("viewer",))) as eve:
        for body in (b"[" * 600_000, b"", b'{"files": []}'):
            answer = eve.post("/apply.json", content=body)
            assert answer.status_code == 403, answer.text


@on_sqlite
def test_records_are_bounded_and_most_errors_are_told_and_counted(rest: httpx.Client) -> None:
    many = plan(rest, 400, **asked(*[{}] * (MOST_RECORDS + 1)))
    wrong = plan(rest, 400, **asked(*[{"kind": "topic"}] * (MOST_TOLD + 7)))

    assert [fault["rule"] for fault in many["details"]] == ["records"]
    assert len(wrong["details"]) == MOST_TOLD
    assert wrong["message"].startswith(f"{MOST_TOLD + 7} errors")


@on_sqlite
def test_yaml_is_bounded_in_all_files_together(
    facade_url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_parser, "MOST_TOKENS", 1000)
    files = [{"name": f"{number}.yaml", "text": "a: [" + "1," * 200 + "]"} for number in range(9)]
    with client(f"{facade_url}/api/v1", manager_token(ledger, "mary", "acme")) as manager:
        refused = manager.post("/apply.json", json={"files": files}).json()["details"]

    read = [fault["file"] for fault in refused if "several parts" not in fault["message"]]
    assert read == ["0.yaml", "1.yaml"], refused


@on_sqlite
def test_json_is_bounded_in_all_files_together(
    facade_url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_parser, "MOST_JSON_VALUES", 1000)
    files = [{"name": f"{number}.json", "text": json.dumps([1] * 400)} for number in range(4)]
    with client(f"{facade_url}/api/v1", manager_token(ledger, "mary", "acme")) as manager:
        refused = manager.post("/apply.json", json={"files": files}).json()["details"]

    long = {fault["file"] for fault in refused if "several parts" in fault["message"]}
    assert long == {"2.json", "3.json"}, refused


@on_sqlite
@pytest.mark.parametrize(
    "text", ["# nothing\n" * 210_000, " " * 2_100_000, "a: '" + "x\n " * 700_000 + "'"], ids=len
)
def test_yaml_without_words_is_bounded_too(facade_url: str, ledger: Ledger, text: str) -> None:
    files = [{"name": f"{number}.yaml", "text": text} for number in range(3)]
    with client(f"{facade_url}/api/v1", manager_token(ledger, "mary", "acme")) as manager:
        refused = manager.post("/apply.json", json={"files": files}).json()["details"]

    told = [(fault["file"], "characters" in fault["message"]) for fault in refused]
    assert [file for file, is_long in told if is_long] == ["1.yaml", "2.yaml"], told
