"""Who is told of what, in files and by commands; an address of Slack's is in none of them."""

import yaml

from tests.support.record_files import FilesHome, app, company, template
from tests.support.secrets import secret

NOTICES = {
    "mail": {"on": ["failure", "recovery"], "to": ["ops@acme.example"]},
    "slack": {"on": ["missed"]},
    "finished_by": "06:30",
}
NOBODY = {"mail": {"on": [], "to": []}}


def test_files_say_who_is_told_but_for_the_address_of_slack(files: FilesHome) -> None:
    documents = [
        {**company("acme"), "notices": NOTICES},
        app("Probe"),
        {**template("acme"), "notices": NOBODY},
    ]
    files.apply(*documents)
    assert set(files.actions(code=0).values()) == {"unchanged"}
    assert files.told("company", "show", "acme")["notices"]["slack"] == {
        "on": ["missed"], "uri": None
    }  # fmt: skip
    address = f"https://hooks.slack.example/{secret('address-of-slack')}"
    done = files.run("company", "set", "acme", "--secret", "notices.slack.uri", stdin=address)
    assert done.returncode == 0, done.stderr
    assert files.told("company", "show", "acme")["notices"] == NOTICES | {
        "slack": {"on": ["missed"], "uri": "********"}
    }
    assert set(files.actions(code=0).values()) == {"unchanged"}
    exported = files.run("export").stdout
    assert address not in exported
    records = [record for record in yaml.safe_load_all(exported) if "kind" in record]
    exported_notices = {record["kind"]: record.get("notices") for record in records}
    assert exported_notices == {"company": NOTICES, "runtemplate": NOBODY}
    files.write_records({**company("acme"), "notices": NOTICES | {"finished_by": "+2h"}})
    files.told("apply", "files.yaml", "--yes")
    assert files.told("company", "show", "acme")["notices"]["slack"]["uri"] == "********"


def test_wrong_notices_in_a_file_are_refused_with_their_place(files: FilesHome) -> None:
    wrong = {"mail": {"on": ["ever"], "to": ["x"]}, "slack": {"on": [], "uri": "https://h/"}}
    files.write_records({**company("acme"), "notices": wrong})
    refused = files.run("plan", "files.yaml")
    assert refused.returncode == 1
    for word in ("/notices/mail/on/0", "/notices/mail/to/0", "/notices/slack"):
        assert word in refused.stderr
