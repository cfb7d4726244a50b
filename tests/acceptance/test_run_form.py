"""Three real applications in the run form of Prefect's UI."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from tests.support.browser import RunForm, chromium, shows, sign_in_to_prefect, words
from tests.support.corpus import needs_corpus, usable_documents
from tests.support.records import ok
from tests.support.service import Service
from tests.support.waits import eventually

pytestmark = needs_corpus

FORMS = {
    "VitexSoftware__multiflexi-probe__probe.multiflexi.app.json": "PROBE_SLEEP",
    "VitexSoftware__abraflexi-matcher__issued_invoices_matcher.multiflexi.app.json": (
        "MATCHER_DAYS_BACK"
    ),
    "Spoje-NET__pohoda-raiffeisenbank__pohodasql_raiffeisenbank_sharepoint.multiflexi.app.json": (
        "POHODA_TIMEOUT"
    ),
}
"""File of a definition -> one of its keys that takes whole numbers."""

STAND_IN = """#!/usr/bin/env python3
import json, os
print(json.dumps(dict(os.environ)))
"""
TYPED = "typed: ä \"'$HOME"


@pytest.fixture(scope="module")
def browser(service: Service) -> Iterator[webdriver.Chrome]:
    with chromium() as browser:
        sign_in_to_prefect(browser, service.prefect, ":".join(service.admin()))
        yield browser


class Formed:
    """A definition with a run template, applied to Prefect."""

    def __init__(self, service: Service, file: str) -> None:
        self.service = service
        self.document = usable_documents()[file]
        self.number = FORMS[file]
        program = service.home.parent / "bin" / self.document["executable"]
        if not program.exists():
            program.write_text(STAND_IN)
            program.chmod(0o755)
        app = self._post("app", **self.document)
        secret = {key: "x" for key, one in self.environment.items() if one["type"] == "password"}
        template = self._post(
            "runtemplate", app_id=app["id"], company="acme", name=f"Form {app['id']}", env=secret
        )
        path = f"/api/v1/runtemplate/{template['id']}.json"
        self.url = eventually(lambda: service.rest().get(path).json()["prefect_url"], 60)
        self.deployment_id = self.url.rpartition("/")[2]

    @property
    def environment(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self.document["environment"]
        return found

    @property
    def shown(self) -> dict[str, dict[str, Any]]:
        """The variables that are parameters."""
        return {key: one for key, one in self.environment.items() if one["type"] != "password"}

    @property
    def required(self) -> list[str]:
        """The parameters somebody has to fill in."""
        return [
            key
            for key, one in self.shown.items()
            if one.get("required") and one.get("defval") in (None, "")
        ]

    def _post(self, item: str, **fields: Any) -> dict[str, Any]:
        return ok(self.service.rest().post(f"/api/v1/{item}/", json=fields), 201)

    def runs(self) -> list[dict[str, Any]]:
        """The flow runs there are."""
        body = {"deployments": {"id": {"any_": [self.deployment_id]}}}
        answer = self.service.prefect_api().post("/flow_runs/filter", json=body)
        found: list[dict[str, Any]] = answer.raise_for_status().json()
        return found


@pytest.fixture(scope="module", params=FORMS, ids=lambda file: file.split("__")[1])
def formed(request: pytest.FixtureRequest, service: Service) -> Formed:
    return Formed(service, request.param)


def english(text: str | dict[str, str]) -> str:
    return text if isinstance(text, str) else text.get("en", next(iter(text.values())))


def shown_default(variable: dict[str, Any]) -> Any:
    """What a form holds for a default: text, or for a switch whether it is on."""
    default = variable.get("defval")
    if variable["type"] == "bool":
        return str(default).lower() in ("true", "1", "yes", "on")
    return "" if default is None else str(default)


def test_titles_hints_choices_and_defaults_are_on_the_form(
    formed: Formed, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    form = RunForm(browser, formed.url)
    browser.save_screenshot(str(tmp_path / "form.png"))

    assert list(form.entries) == list(formed.shown)
    for key, variable in formed.shown.items():
        entry = form.entries[key]
        assert entry.label.endswith(" (Optional)") == (not variable.get("required")), key
        assert not entry.label.startswith(key), "the title is in words"
        assert entry.shapes == [], key
        for text in ("description", "hint"):
            assert words(english(variable.get(text, ""))).lower() in entry.text.lower(), key
        assert entry.value == shown_default(variable), key
        if variable.get("options"):
            assert entry.choices == list(variable["options"]), key


def test_a_wrong_whole_number_is_refused_and_submit_runs(
    formed: Formed, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    form = RunForm(browser, formed.url)
    number = form.entries[formed.number]
    before = len(formed.runs())

    number.type("letters")
    assert not re.search("[a-z]", number.value)
    for key in formed.required:
        form.entries[key].type(TYPED)
    number.type("1.5")
    form.submit_until_refused(formed.number, "1 5 is not")
    browser.save_screenshot(str(tmp_path / "refused.png"))
    assert not form.left
    assert len(formed.runs()) == before

    number.type("3")
    form.submit_until_taken()
    browser.save_screenshot(str(tmp_path / "taken.png"))
    run = eventually(lambda: _last(formed, before), 30)
    expected = dict.fromkeys(formed.required, TYPED) | {formed.number: 3}
    assert {key: run["parameters"][key] for key in expected} == expected
    jobs = formed.service.rest().get("/api/v1/jobs.json").json().values()
    (job,) = [job for job in jobs if job["flow_run_id"] == run["id"]]
    ended = formed.service.job_in(job["id"], "succeeded", "failed")
    assert ended["exitcode"] == 0, ended["message"]
    process = json.loads(ended["stdout"])
    given = process.get("environment", process)  # the probe of this service tells more
    assert {key: given[key] for key in expected} == {k: str(v) for k, v in expected.items()}


def _last(formed: Formed, before: int) -> dict[str, Any] | None:
    """The new run, once it is over."""
    runs = formed.runs()
    assert len(runs) <= before + 1
    final = ("COMPLETED", "FAILED", "CRASHED")
    newest = max(runs, key=lambda run: run["created"], default=None)
    return newest if newest and len(runs) > before and newest["state_type"] in final else None


def test_the_newer_ui_has_the_form_too(
    formed: Formed, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    address = formed.url.replace("/deployments/", "/v2/deployments/", 1)
    browser.get(f"{address}/run")

    eventually(shows(browser, *formed.shown), 60)
    browser.save_screenshot(str(tmp_path / "newer.png"))
