"""Topics attached by files and by commands."""

import json

from tests.support.record_files import FilesHome, app, company, template


def test_files_attach_topics_and_say_which_there_are_not(files: FilesHome) -> None:
    documents = [
        {**company("acme"), "topics": ["money", "inner"]},
        {"kind": "topic", "name": "money"},
        {"kind": "topic", "name": "inner", "company": "acme"},
        app("Probe", topics=["money", "unheard"]),
        {**template("acme"), "topics": ["inner"]},
    ]
    files.apply(*documents)
    assert files.told("company", "show", "acme")["topics"] == ["money", "inner"]
    assert files.told("app", "show", "Probe")["topics"] == ["money"]
    shown = files.told("template", "show", "acme/t")
    assert (shown["topics"], shown["all_topics"]) == (["inner"], ["inner", "money"])
    assert set(files.actions(code=0).values()) == {"unchanged"}
    files.write_records({**company("acme"), "topics": ["nothing"]})
    refused = files.run("plan", "files.yaml")
    assert refused.returncode == 1
    assert "there is no topic 'nothing'" in refused.stderr
    files.write_records({**company("acme"), "topics": []})
    assert files.actions() == {"company acme": "update"}


def test_topics_come_back_as_they_were_exported(files: FilesHome) -> None:
    files.apply(company("acme"), {"kind": "topic", "name": "money"}, app("Probe"), template("acme"))
    words = ("--company", "acme", "--template", "acme/t", "--app", "Probe")
    attached = files.told("topic", "attach", "money", *words)["changed"]
    assert [(one["kind"], one["topics"]) for one in attached] == [
        ("company", ["money"]), ("runtemplate", ["money"]), ("app", ["money"])
    ]  # fmt: skip
    files.run("export", "-o", "folder")
    assert json.loads((files.path / "folder/apps/probe.app.json").read_text())["topics"] == [
        "money"
    ]
    planned = files.told("plan", "folder", code=0)
    assert {one["action"] for one in planned["changes"]} == {"unchanged"}
    output = files.run("topic", "detach", "money", "--company", "acme").stdout
    assert output == "company 1 has the topics none\n"
    assert files.told("company", "show", "acme")["topics"] == []
    assert files.run("topic", "attach", "money").returncode == 2


def test_a_topic_that_is_borne_is_not_pruned(files: FilesHome) -> None:
    money = {"kind": "topic", "name": "money", "labels": ["team"]}
    files.apply(money, {**company("acme"), "topics": ["money"], "labels": ["team"]})
    files.write_records({**company("acme"), "topics": ["money"], "labels": ["team"]})
    planned = files.told("plan", "files.yaml", "--prune", code=0)
    assert [one["action"] for one in planned["changes"]] == ["unchanged"]
    files.write_records({"kind": "company", "slug": "other", "name": "Other", "labels": ["team"]})
    planned = files.told("plan", "files.yaml", "--prune", code=3)
    assert {one["title"]: one["action"] for one in planned["changes"]} == {
        "other": "create", "money": "delete", "acme": "delete"
    }  # fmt: skip
