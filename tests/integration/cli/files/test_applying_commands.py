"""`jobauto apply` over the network: files that are none, plans that are stale, whoever is asked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobauto_prefect.cli.commands.apply import MOST_PLANS, ApplyRequest, apply_plan
from jobauto_prefect.cli.connection.client import BASE, Client, call_facade
from jobauto_prefect.cli.connection.http_connection import connect_remote
from jobauto_prefect.errors import Conflict, InvalidInput
from jobauto_prefect.ledger.store import Ledger
from tests.support.servers import manager_token, user_token

ACME = {"kind": "company", "slug": "acme", "name": "Acme"}


@pytest.fixture
def url(facade_url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a facade, with a token in the environment."""
    monkeypatch.setenv("JOBAUTO_TOKEN", user_token(ledger, "anna"))
    return facade_url


def written(folder: Path, **contents: Any) -> list[Path]:
    for name, content in contents.items():
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name.replace("_", ".")).write_bytes(raw)
    return [folder]


def apply(url: str, paths: list[Path], agree: Callable[[Any], None] | None = None) -> Any:
    async def work(client: Client) -> Any:
        wanted = ApplyRequest.of(paths)
        return await apply_plan(client, wanted, await wanted.planned(client), agree)

    return call_facade(url, work)


def test_files_that_are_no_text_are_told_with_all_other_errors(url: str, tmp_path: Path) -> None:
    paths = written(
        tmp_path / "",
        a_json=b"\x89PNG\r\n\x1a\n\x00\xff",
        b_json={**ACME, "name": 7},
        c_json={"kind": "runtemplate", "company": "acme", "app": "In a.json", "name": "X"},
    )

    with pytest.raises(InvalidInput) as refused:
        apply(url, paths)

    told = [(Path(one.file or "").name, one.rule) for one in refused.value.faults]
    assert told == [("a.json", "encoding"), ("b.json", "type")]


def test_what_is_approved_waits_for_files_that_can_be_read(
    url: str, tmp_path: Path, rest: httpx.Client
) -> None:
    paths = written(tmp_path, acme_json=ACME, b_json=b"\x89PNG\r\n\x1a\n\x00\xff")

    with pytest.raises(InvalidInput):
        call_facade(url, ApplyRequest.of(paths).approved)
    assert rest.get("/companies.json").json() == {}

    (tmp_path / "b.json").unlink()
    assert call_facade(url, ApplyRequest.of(paths).approved)["applied"]
    assert [company["slug"] for company in rest.get("/companies.json").json().values()] == ["acme"]


def test_somebody_quicker_is_seen_in_a_new_plan(
    url: str, tmp_path: Path, rest: httpx.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def agree(planned: Any) -> None:
        asked.append(planned["counts"])
        if len(asked) == 1:
            rest.post("/company/", json={"slug": "acme", "name": "Theirs"}).raise_for_status()

    done, _ = apply(url, written(tmp_path, acme_json=ACME), agree)

    assert [(one["create"], one["update"]) for one in asked] == [(1, 0), (0, 1)]
    assert done["applied"]
    assert "name: Theirs → Acme" in capsys.readouterr().out
    assert rest.get("/company/acme.json").json()["name"] == "Acme"


def test_somebody_who_is_always_quicker_is_not_fought_for_ever(
    url: str, tmp_path: Path, rest: httpx.Client
) -> None:
    asked: list[Any] = []

    def agree(planned: Any) -> None:
        asked.append(planned)
        name = f"Theirs {len(asked)}"
        rest.post("/company/", json={"slug": "acme", "name": name}).raise_for_status()

    with pytest.raises(Conflict, match="nothing was changed"):
        apply(url, written(tmp_path, acme_json=ACME), agree)

    assert len(asked) == MOST_PLANS
    assert rest.get("/company/acme.json").json()["name"] == f"Theirs {MOST_PLANS}"


def test_what_one_may_not_change_is_told_before_anybody_is_asked(
    facade_url: str, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBAUTO_TOKEN", manager_token(ledger, "eve", "elsewhere"))
    asked: list[Any] = []

    with pytest.raises(InvalidInput) as refused:
        apply(facade_url, written(tmp_path, acme_json=ACME), asked.append)

    assert asked == []
    assert [one.rule for one in refused.value.faults] == ["forbidden"]


async def test_a_remote_facade_is_asked_at_the_address_of_its_contract_too(url: str) -> None:
    async with connect_remote(f"{url}{BASE}", BASE) as connection:
        planned = await Client(connection).apply({"files": []})
    assert planned["changes"] == []
