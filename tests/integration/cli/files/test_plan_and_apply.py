"""`jobauto plan`, `apply` and `export` with a real Prefect."""

import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from tests.support.homes import InProcessHome
from tests.support.paths import ROOT
from tests.support.prefect_home import PATIENCE, PrefectHome
from tests.support.processes import forked
from tests.support.secrets import SECRET

EXAMPLES = ROOT / "deployments" / "examples"


def test_files_are_applied_once_and_then_nothing_is_written_anywhere(
    place: PrefectHome,
) -> None:
    place.records(
        place.company(), place.template("One", interv="d"), place.template("Two", env={"COUNT": 2}),
        app_json=place.definition(),
    )  # fmt: skip

    before = place.told("plan", "files", code=3)
    asked = list(place.prefect.writes)
    applied = place.apply()
    calls = len(place.prefect.writes)
    audited = len(place.told("audit", "list", "--limit", "100"))
    after = place.actions()
    again = place.apply()

    assert before["counts"] == {"create": 4, "update": 0, "restore": 0, "delete": 0, "unchanged": 0}
    assert before["prefect_compared"]
    assert asked == []
    assert applied["changes"] == before["changes"]
    assert set(place.deployments()) == {"One", "Two"}
    assert set(after.values()) == {"unchanged"}
    assert again["counts"]["unchanged"] == 4
    assert len(place.prefect.writes) == calls
    assert len(place.told("audit", "list", "--limit", "100")) == audited


@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.soak)])
def test_many_run_templates_are_compared_in_a_handful_of_reads(
    place: PrefectHome, count: int
) -> None:
    place.records(
        place.company(),
        *(
            place.template(f"T{number}", interv="d", env={"COUNT": number})
            for number in range(count)
        ),
        app_json=place.definition(),
    )
    place.apply()
    place.prefect.calls.clear()

    again = place.apply()

    assert again["counts"]["unchanged"] == count + 2
    assert place.prefect.writes == []
    assert sorted(place.prefect.calls) == [
        "POST /deployments/filter", "POST /flows/filter", "POST /work_pools/filter",
    ]  # fmt: skip


def test_an_edit_is_shown_field_by_field_and_made(place: PrefectHome) -> None:
    place.records(
        place.company(),
        place.template("One", note="Old"),
        app_json=place.definition(),
    )
    place.apply()
    place.records(
        place.company(), place.template("One", note="New", interv="h", env={"COUNT": 3}),
        app_json=place.definition(author="Anna"),
    )  # fmt: skip

    planned = place.told("plan", "files", code=3)
    shown = place.run("plan", "files")
    place.apply()

    by_kind = {one["kind"]: one for one in planned["changes"]}
    assert by_kind["runtemplate"]["fields"] == {
        "note": {"before": "Old", "after": "New"},
        "interv": {"before": "n", "after": "h"},
        "env.COUNT": {"before": None, "after": "3"},
    }
    assert by_kind["app"]["fields"] == {"author": {"before": None, "after": "Anna"}}
    assert by_kind["company"]["action"] == "unchanged"
    assert "          note: Old → New\n" in shown.stdout
    assert shown.stdout.endswith("2 to update, 1 unchanged\n")
    assert place.deployments()["One"]["parameters"]["COUNT"] == 3
    assert set(place.actions().values()) == {"unchanged"}


def test_what_was_changed_or_deleted_in_prefect_is_shown_and_restored(
    place: PrefectHome,
) -> None:
    place.records(
        place.company(), place.template("Gone", interv="d"), place.template("Paused", interv="d"),
        place.template("Limited"), place.template("Kept"), app_json=place.definition(),
    )  # fmt: skip
    place.apply()
    there = place.deployments()
    place.rest.delete(f"/deployments/{there['Gone']['id']}").raise_for_status()
    schedule = there["Paused"]["schedules"][0]["id"]
    path = f"/deployments/{there['Paused']['id']}"
    place.rest.patch(path, json={"paused": True}).raise_for_status()
    path = f"/deployments/{there['Paused']['id']}/schedules/{schedule}"
    place.rest.patch(path, json={"active": False}).raise_for_status()
    path = f"/deployments/{there['Limited']['id']}"
    place.rest.patch(path, json={"concurrency_limit": 1}).raise_for_status()

    planned = place.told("plan", "files", code=3)
    shown = place.run("plan", "files").stdout
    applied = place.apply()

    drift = {one["title"].partition("/")[2]: one["drift"] for one in planned["changes"]}
    assert drift["Gone"]["deployment"] == {"prefect": None, "record": f"{place.slug} - Gone"}
    assert drift["Paused"]["paused"] == {"prefect": True, "record": False}
    assert drift["Paused"]["schedule"]["prefect"] == "0 0 * * * UTC, not active"
    assert drift["Limited"] == {"concurrency_limit": {"prefect": 1, "record": None}}
    assert drift["Kept"] == {}
    assert "in Prefect paused: True → False" in shown
    assert applied["counts"]["restore"] == 3
    now = place.deployments()
    assert not now["Paused"]["paused"]
    assert now["Paused"]["schedules"][0] | {"updated": "", "active": True} == there["Paused"][
        "schedules"
    ][0] | {"updated": "", "active": True}
    assert now["Gone"]["id"] != there["Gone"]["id"]
    assert now["Limited"]["global_concurrency_limit"] is None
    assert set(place.actions().values()) == {"unchanged"}


def is_locked(ledger: sqlite3.Connection) -> bool:
    """Whether somebody writes."""
    try:
        ledger.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return True
    ledger.execute("ROLLBACK")
    return False


def templates_in(ledger: sqlite3.Connection) -> int:
    found: int = ledger.execute("SELECT count(*) FROM runtemplate").fetchone()[0]
    return found


def _apply_files(path: Path, environment: dict[str, str]) -> None:
    home = InProcessHome(path)
    home.environment = environment
    home.run("apply", "files", "--yes")


@pytest.mark.parametrize("tells", [False, True])
def test_apply_leaves_all_or_nothing_where_it_is_killed(place: PrefectHome, tells: bool) -> None:
    """While it writes, or once it has and tells Prefect."""
    names = {f"T{number}" for number in range(30)}
    place.records(
        place.company(), *(place.template(name, interv="d") for name in sorted(names)),
        app_json=place.definition(),
    )  # fmt: skip
    path = place.path / "home" / "ledger.db"
    ledger = sqlite3.connect(path, timeout=0, isolation_level=None)
    killed = forked(_apply_files, place.path, place.environment)
    until = time.monotonic() + PATIENCE
    while not (templates_in(ledger) if tells else is_locked(ledger)):
        assert time.monotonic() < until
        time.sleep(0.001)
    killed.kill()
    killed.join()
    written = templates_in(ledger)
    assert not is_locked(ledger)
    ledger.close()

    resumed = place.apply()
    after = place.actions()

    assert written == (30 if tells else 0)
    assert resumed["counts"]["create"] == (0 if tells else 32)
    assert set(place.deployments()) == names
    assert set(after.values()) == {"unchanged"}


def test_pruning_deletes_what_only_the_files_owned_and_no_longer_name(
    place: PrefectHome,
) -> None:
    place.records(
        place.company(), place.template("Mine"), place.template("Free"),
        place.template("Shared", labels=["mine", "theirs"]), app_json=place.definition(),
    )  # fmt: skip
    place.apply("--label", "mine")
    (place.path / "files" / "app.json").unlink()
    place.records(place.template("Free"))
    unowned = place.run("plan", "files", "--prune")
    planned = place.actions("--prune", "--label", "mine", code=3)

    applied = place.apply("--prune", "--label", "mine")

    assert unowned.returncode == 1
    assert "--label" in unowned.stderr
    assert planned[f"runtemplate {place.slug}/Mine"] == "delete"
    assert f"company {place.slug}" not in planned, "the run template refers to it"
    assert f"runtemplate {place.slug}/Shared" not in planned, "others own it, too"
    assert applied["counts"]["delete"] == 1
    assert set(place.deployments()) == {"Shared", "Free"}
    assert place.actions("--prune", "--label", "mine") == {
        f"runtemplate {place.slug}/Free": "unchanged"
    }


def test_pruning_stops_before_the_first_change_where_something_else_needs_a_record(
    place: PrefectHome,
) -> None:
    place.records(place.company(labels=["old"]), app_json=place.definition())
    place.apply()
    place.records(place.template("Stays"))
    place.apply()
    other = {"kind": "topic", "name": "other", "labels": ["old"]}
    place.records(other)

    ran = place.run("apply", "files", "--prune", "--yes")

    assert ran.returncode == 1
    assert f"still needed by run template {place.slug}/Stays" in ran.stderr
    assert place.told("topic", "list") == {}


def test_everything_is_exported_as_files_that_change_nothing_here_and_make_it_elsewhere(
    place: PrefectHome, tmp_path_factory: pytest.TempPathFactory, prepared_home: Path
) -> None:
    slug = place.slug
    place.records(
        {"kind": "credential_type", "code": "bank", "name": "Bank", "fields": [
            {"keyword": "BANK_USER", "name": {"en": "User", "cs": "Uživatel"}},
            {"keyword": "BANK_PIN", "type": "password", "required": True},
        ]},
        {"kind": "topic", "name": "money", "color": "00FF00", "description": "12:30\nno\n"},
        {"kind": "credential", "company": slug, "credential_type": "bank", "name": "Main",
         "values": {"BANK_USER": "1e5"}},
        {"kind": "eventsource", "name": f"S {slug}", "company": slug, "db_database": "changes",
         "db_port": 5432, "db_connection": "pgsql"},
        {"kind": "eventrule", "event_source": f"S {slug}", "runtemplate": f"{slug}/One",
         "evidence": "invoice", "env_mapping": {"COUNT": "recordid"}},
        {"kind": "eventrule", "runtemplate_source": f"{slug}/One", "runtemplate": f"{slug}/T/wo",
         "fan_out": True},
        place.template("One", env={"COUNT": 1}, interv="c", cron="5 4 * * *",
                       success={"ChainRuntemplate": {"runtemplate": f"{slug}/T/wo"}}),
        place.template("T/wo", active=False, labels=["mine"], fail={
            "Stop": {}, "Reschedule": {"delay": 60}, "WebHook": {"uri": "https://h.example/?a=b"}}),
        place.company(email="a@example.org", env={"TOWN": "no", "SIZE": "007"}),
        app_json=place.definition(),
    )  # fmt: skip
    place.apply()
    secret = place.run("template", "set", f"{slug}/One", "--secret", "KEY", stdin=SECRET)
    assert secret.returncode == 0, secret.stderr

    folder = place.run("export", "-o", "out")
    text = place.run("export")
    own = place.run("export", "--company", slug)
    here = place.told("plan", "out")
    there = PrefectHome(tmp_path_factory.mktemp("there"), place.prefect, str(place.rest.base_url))
    shutil.copytree(prepared_home, there.path / "home")
    (there.path / "files").mkdir()
    (there.path / "files" / "all.yaml").write_text(text.stdout)
    there.apply()
    copied = there.run("export")

    assert folder.returncode == 0, folder.stderr
    assert here["counts"]["unchanged"] == len(here["changes"]) == 10
    definition = f"out/apps/probe-{slug}.app.json"
    assert (place.path / definition).read_text() == place.definition()
    assert SECRET not in text.stdout
    assert "# secret, and in no file: KEY" in text.stdout
    assert "kind: topic" not in own.stdout
    assert own.stdout in text.stdout.replace(_topic(text.stdout), "")
    assert set(there.actions().values()) == {"unchanged"}
    without = [line for line in text.stdout.splitlines() if not line.startswith("#")]
    assert copied.stdout.splitlines() == without
    assert place.run("export", "-o", "out").returncode == 1, "nothing is written over"


def test_files_hold_no_secrets_and_every_error_is_told_before_a_change(
    place: PrefectHome,
) -> None:
    place.records(
        place.company(env={"KEY": "hush", "PERL5OPT": "-Mx"}),
        {"kind": "credential_type", "code": "bank", "name": "Bank",
         "fields": [{"keyword": "PIN", "type": "secret"}]},
        {"kind": "credential", "company": place.slug, "credential_type": "bank", "name": "Main",
         "values": {"PIN": "hush", "OTHER": "x"}},
        {"kind": "credential", "company": "nobody", "credential_type": "none", "name": "x"},
        {"kind": "eventrule", "event_source": "none", "runtemplate": f"{place.slug}/None"},
        place.template("One", timezone="Mars/Base",
                       env={"KEY": "hush", "COUNT": "many", "CONT": 1}),
        app_json=place.definition(),
    )  # fmt: skip

    ran = place.run("apply", "files", "--yes")

    assert ran.returncode == 1
    assert "hush" not in ran.stderr
    for expected in (
        "/0/env/KEY: KEY is secret, and files hold no secrets; set it with: jobauto company set",
        "/0/env/PERL5OPT: 'PERL5OPT' changes how programs are loaded",
        "/2/values/PIN: PIN is secret, and files hold no secrets; set it with: jobauto credential "
        "set",
        "/2/values/OTHER: the credential type has no field OTHER; there are PIN",
        "/3/company: there is no company 'nobody'",
        "/3/credential_type: there is no credential type 'none'",
        "/4/event_source: there is no event source 'none'",
        f"/4/runtemplate: there is no run template '{place.slug}/None'",
        "/5/env/KEY: KEY is secret",
        "/5/env/COUNT: COUNT must be of type integer",
        "/5/env/CONT: the application declares no 'CONT'; did you mean 'COUNT'?",
        "/5/timezone",
    ):
        pointer = expected.partition("/")[2].partition("/")[2]
        assert pointer in ran.stderr, ran.stderr
    assert place.told("company", "list") == {}


def _topic(text: str) -> str:
    """The document of the topic."""
    return next(f"---\n{one}" for one in text.split("---\n") if one.startswith("kind: topic"))
