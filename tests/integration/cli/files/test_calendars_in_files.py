"""Calendars in files and as commands."""

from tests.support.record_files import FilesHome, app, company, template

CLOSING = {
    "kind": "calendar",
    "name": "Closing",
    "days": [{"date": "2026-12-24", "until": "2026-12-26", "yearly": True}],
    "times": [{"from": "22:00", "to": "04:00", "weekdays": ["sat"], "title": "Backup"}],
}


def test_files_name_calendars_and_come_back_as_they_were_exported(files: FilesHome) -> None:
    files.apply(
        {**template("acme"), "calendars": ["Closing"], "on_closed": "move"},
        app("Probe"),
        {**company("acme"), "calendars": ["Closing"]},
        CLOSING,
    )
    assert files.told("template", "show", "acme/t")["calendars"] == ["Closing"]
    shown = files.told("calendar", "show", "Closing")
    assert (shown["days"], shown["times"]) == (CLOSING["days"], CLOSING["times"])
    assert set(files.actions(code=0).values()) == {"unchanged"}
    files.run("export", "-o", "folder", "--company", "acme")
    planned = files.told("plan", "folder", code=0)
    assert {one["title"]: one["action"] for one in planned["changes"]} == {
        "Closing": "unchanged", "acme": "unchanged", "Probe": "unchanged", "acme/t": "unchanged",
    }  # fmt: skip
    files.write_records({**company("acme"), "calendars": ["Holidays"]})
    refused = files.run("plan", "files.yaml")
    assert refused.returncode == 1
    assert "there is no calendar 'Holidays'" in refused.stderr


def test_a_calendar_is_made_changed_and_deleted_by_commands(files: FilesHome) -> None:
    made = files.run("calendar", "create", "Closing", 'days=[{"date": "2026-12-31"}]')
    assert made.returncode == 0, made.stderr
    files.run("calendar", "set", "Closing", "timezone=Europe/Prague")
    shown = files.told("calendar", "show", "Closing")
    assert (shown["days"], shown["timezone"]) == ([{"date": "2026-12-31"}], "Europe/Prague")
    assert [one["name"] for one in files.told("calendar", "list").values()] == ["Closing"]
    assert files.run("calendar", "delete", "Closing", "--yes").returncode == 0
    assert files.told("calendar", "list") == {}


def test_pruning_takes_a_calendar_after_who_names_it(files: FilesHome) -> None:
    files.apply({**CLOSING, "labels": ["team"]},
                {**company("acme"), "calendars": ["Closing"], "labels": ["team"]})  # fmt: skip
    files.write_records({"kind": "company", "slug": "other", "name": "Other", "labels": ["team"]})
    pruned = files.run("apply", "files.yaml", "--prune", "--yes")
    assert pruned.returncode == 0, pruned.stderr
    assert files.told("calendar", "list") == {}
