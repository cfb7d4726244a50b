"""A job's page in Prefect."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobauto_prefect.jobs.outcome.artifact_markdown import artifact_key
from jobauto_prefect.jobs.outcome.results import run_status_of
from jobauto_prefect.ledger.records import App, Artifact, Company, Job, RunTemplate
from jobauto_prefect.settings import Settings

SETTINGS = Settings(url="https://jobs.example", language="cs")
BEGAN = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def a_job(template_name: str = "Root | file system", **members: Any) -> Job:
    company = Company(slug="acme", name="Acme Ltd.")
    template = RunTemplate(
        id=5, name=template_name, company=company, app=App(name="Disk", document=_document())
    )
    values: dict[str, Any] = {
        "id": 12,
        "runtemplate_id": 5,
        "attempt": 1,
        "state": "succeeded",
        "severity": "warning",
        "message": "exit code 2 (warning): Místo dochází",
        "exitcode": 2,
        "begin": BEGAN,
        "end": BEGAN + timedelta(seconds=192),
        "command": "disk --password ********",
        "warnings": [],
        "env": {},
        **members,
    }
    return Job(runtemplate=template, **values)


def _document() -> dict[str, Any]:
    used = {"type": "float", "description": {"en": "Used", "cs": "Zaplněno"}}
    environment: dict[str, Any] = {key: {} for key in ("HOST", "PASSWORD", "EMPTY", "LONG")}
    return {
        "environment": environment,
        "produces": {"disk": {"format": "json", "fields": {"used": used}}},
    }


def test_a_job_that_an_event_started_leads_back_to_it() -> None:
    shown = page_of(a_job(severity="success", event_id=7, eventrule_id=3))
    assert "- **Event:** [event 7](https://jobs.example/console/events/7)" in shown
    assert "- **Event rule:** [rule 3](https://jobs.example/console/rules/3)" in shown
    assert "Event" not in page_of(a_job())
    labels = run_status_of(a_job(event_id=7, eventrule_id=3), SETTINGS).labels
    assert (labels["jobauto.event"], labels["jobauto.rule"]) == (7, 3)


def page_of(job: Job, *artifacts: Artifact, produced: Any = None) -> str:
    shown = run_status_of(job, SETTINGS, artifacts, produced).artifact_markdown
    assert shown is not None
    return shown


def test_it_says_how_the_job_ended_in_the_readers_language() -> None:
    shown = page_of(a_job())
    assert shown.startswith(
        "# Acme Ltd. / Root | file system #12\n\n**exit code 2 (warning): Místo dochází**"
    )
    assert "- **Outcome:** succeeded" in shown
    assert "- **Severity:** warning" in shown
    assert "- **Exit code:** `2`" in shown
    assert "- **Duration:** 0:03:12" in shown
    assert "- **Command:** `disk --password ********`" in shown


def test_it_links_to_the_records() -> None:
    shown = page_of(a_job(task_id=7))
    assert "[job 12](https://jobs.example/console/jobs/12)" in shown
    assert "[task 7](https://jobs.example/console/tasks/7)" in shown
    assert "(https://jobs.example/console/runtemplates/5)" in shown


def test_artifacts_and_what_they_say_are_lists() -> None:
    report = Artifact(id=3, name="Zpráva", path="out/disk.json", size=2048)
    shown = page_of(
        a_job(severity="success", exitcode=0),
        report,
        produced={"out/disk.json": {"used": "81.5", "host": "a|b"}},
    )
    link = "[Zpráva](https://jobs.example/console/artifacts/3)"
    assert f"- {link} (`out/disk.json`, 2.0 KiB)" in shown
    assert "From `out/disk.json`:" in shown
    assert "- `used` (Zaplněno): `81.5`" in shown
    assert "- `host`: `a|b`" in shown


def test_the_values_a_job_was_given_are_those_its_definition_declares_and_long_ones_are_cut() -> (
    None
):
    env = {"HOST": "a|b", "LONG": "x" * 600, "PASSWORD": "********", "EMPTY": "", "JOB_ID": "12"}
    shown = page_of(a_job(env=env))
    assert "- `HOST`: `a|b`\n- `PASSWORD`: `********`" in shown
    assert f"- `LONG`: `{'x' * 500}…`" in shown
    assert "EMPTY" not in shown
    assert "JOB_ID" not in shown


def test_a_plain_success_has_none() -> None:
    assert run_status_of(a_job(severity="success", exitcode=0), SETTINGS).artifact_markdown is None


def test_a_job_that_never_ran_says_only_what_is_known() -> None:
    never = a_job(state="lost", severity="error", message="lost", exitcode=None, begin=None)
    shown = page_of(never)
    assert "Exit code" not in shown
    assert "Duration" not in shown


@pytest.mark.parametrize(
    ("name", "key"),
    [("Root file system", "acme-root-file-system-5"), ("Účty / 1", "acme-ty-1-5")],
)
def test_the_pages_of_a_template_share_a_key_that_prefect_takes(name: str, key: str) -> None:
    assert artifact_key(a_job(name).runtemplate) == key


def test_a_very_long_name_still_gives_a_key() -> None:
    key = artifact_key(a_job("n" * 400).runtemplate)
    assert len(key) <= 255
    assert key.endswith("-5")
