"""`jobauto app`: definitions judged, upgraded, imported, exported, compared."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobauto_prefect.ledger.store import Ledger
from tests.support.corpus import needs_corpus, source, verdicts
from tests.support.definitions import PROBE
from tests.support.homes import Home, InProcessHome
from tests.support.servers import user_token

FAULTY = """{
  "$schema": "https://example.org/schema.json",
  "name": "Faulty",
  "description": "Has a fault",
  "executable": "x",
  "environment": {
    "KIND": {"type": "colour"}
  }
}
"""
OLD = """{
    "name": "Old",
    "description": "From long ago",
    "executable": "old",
    "requirements": "A,B",
    "environment": {"FLAG": {"type": "checkbox", "defval": "1"}},
    "homepage": "https:\\/\\/example.org"
}
"""


@pytest.fixture
def empty(tmp_path: Path) -> Home:
    return InProcessHome(tmp_path)


@pytest.fixture
def home(empty: Home, prepared_home: Path) -> Home:
    """A home with key and tables."""
    shutil.copytree(prepared_home, empty.path / "home")
    return empty


def put(home: Home, name: str, content: Any) -> str:
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    (home.path / name).write_text(text)
    return name


def test_an_error_is_told_with_its_line_and_as_json(empty: Home) -> None:
    name = put(empty, "faulty.json", FAULTY)
    put(empty, "good.json", PROBE)

    told = empty.run("app", "validate", ".")
    listed = json.loads(empty.run("app", "validate", name, "--json").stdout)

    assert told.returncode == 1
    assert told.stdout.splitlines()[:3] == [
        "faulty.json:7:22: error: /environment/KIND/type: 'colour' is not one of string, "
        "file-path, email, url, integer, float, bool, password, set, text",
        '     7 │     "KIND": {"type": "colour"}',
        "       │                      ^",
    ]
    assert told.stdout.splitlines()[-1].startswith("2 definitions in 2 files: 1 error, ")
    (fault,) = listed["files"][0]["faults"]
    assert {key: fault[key] for key in ("pointer", "rule", "line", "column", "file")} == {
        "pointer": "/environment/KIND/type",
        "rule": "enum",
        "line": 7,
        "column": 22,
        "file": name,
    }


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b'{\n "name": x\n}', ":2:10: error: is not JSON"),
        (b'{"a": 1,\n "a": 2}', ":2:2: error: the key 'a' occurs twice"),
        (b'{"a": \n"\xff"}', ":2:2: error: is not UTF-8 from here on"),
        (b'{"a":\n NaN}', ":2:2: error: /a: NaN is not a JSON number"),
        (b'{"a":\n ' + b"9" * 5000 + b"}", ":2:2: error: /a: is infinite or too large"),
    ],
    ids=["syntax", "duplicate", "encoding", "NaN", "large"],
)
def test_errors_of_the_text_have_their_place(empty: Home, raw: bytes, place: str) -> None:
    (empty.path / "bad.json").write_bytes(raw)
    told = empty.run("app", "validate", "bad.json")
    assert told.returncode == 1
    assert f"bad.json{place}" in told.stdout


def test_a_text_of_any_depth_is_refused(empty: Home) -> None:
    (empty.path / "bad.json").write_bytes(b"[" * 5000 + b"]" * 5000)
    told = empty.run("app", "validate", "bad.json")
    assert (told.returncode, told.stderr) == (1, "")
    assert "is nested deeper than 64 levels" in told.stdout


@needs_corpus
def test_command_line_and_rest_report_the_same(empty: Home, rest: httpx.Client) -> None:
    invalid = [entry["file"] for entry in verdicts() if entry["verdict"] != "valid"]
    for name in invalid:
        (empty.path / name).write_bytes(source(name))
    listed = json.loads(empty.run("app", "validate", ".", "--json").stdout)["files"]
    assert [Path(each["file"]).name for each in listed] == sorted(invalid)
    for each in listed:
        answer = rest.post("/app/", content=source(Path(each["file"]).name))
        assert answer.status_code == 400
        local = [{k: v for k, v in fault.items() if k != "file"} for fault in each["faults"]]
        assert answer.json()["details"] == local


def test_an_upgrade_prints_the_new_definition_and_tells_what_it_did(empty: Home) -> None:
    put(empty, "old.json", OLD)
    done = empty.run("app", "upgrade", "old.json")
    assert done.returncode == 0
    new = json.loads(done.stdout)
    assert new["environment"] == {"FLAG": {"type": "bool", "defval": "1"}}
    assert list(new) == ["$schema", *json.loads(OLD), "schemaVersion"]
    assert '    "environment": {"FLAG": {"type": "bool", "defval": "1"}},\n' in done.stdout
    assert "/requirements: was text joined by commas, is an array" in done.stderr
    piped = empty.run("app", "upgrade", "-", stdin=OLD)
    assert piped.stdout == done.stdout
    assert (empty.path / "old.json").read_text() == OLD


def test_an_upgrade_writes_over_nothing_unless_in_place(empty: Home) -> None:
    name = put(empty, "old.json", OLD)
    (empty.path / name).chmod(0o640)

    first = empty.run("app", "upgrade", name, "-o", "new.json")
    again = empty.run("app", "upgrade", name, "-o", "new.json")
    onto_itself = empty.run("app", "upgrade", name, "-o", name)
    assert (first.returncode, again.returncode, onto_itself.returncode) == (0, 1, 1)
    assert "already exists" in again.stderr
    assert (empty.path / name).read_text() == OLD

    assert empty.run("app", "upgrade", name, "--in-place").returncode == 0
    assert (empty.path / name).read_bytes() == (empty.path / "new.json").read_bytes()
    assert (empty.path / name).stat().st_mode & 0o777 == 0o640
    assert "no changes" in empty.run("app", "upgrade", name, "--in-place").stdout
    assert sorted(path.name for path in empty.path.iterdir()) == ["new.json", "old.json"]


def test_what_is_left_to_a_person_is_told_with_its_line(empty: Home) -> None:
    put(empty, "old.json", OLD.replace("https:", "our page:"))

    done = empty.run("app", "upgrade", "old.json", "--in-place")
    listed = empty.run("app", "upgrade", "old.json", "--json")

    assert done.returncode == listed.returncode == 1
    assert "old.json:11:17: error: /homepage: must be a URI" in done.stdout
    assert '    11 │     "homepage": "our page:' in done.stdout
    assert [each["pointer"] for each in json.loads(listed.stdout)["undecided"]] == ["/homepage"]


def test_a_file_that_would_still_be_invalid_is_written_only_where_that_is_asked(
    empty: Home,
) -> None:
    before = OLD.replace("https:", "our page:")
    put(empty, "old.json", before)

    for where in ("--in-place", "--output=new.json"):
        done = empty.run("app", "upgrade", "old.json", where)
        assert (done.returncode, "--allow-invalid" in done.stderr) == (1, True)
    assert [path.name for path in empty.path.iterdir()] == ["old.json"]
    assert (empty.path / "old.json").read_text() == before

    assert empty.run("app", "upgrade", "old.json", "-o", "new.json", "--allow-invalid").returncode
    assert '"our page:' in (empty.path / "new.json").read_text()
    assert (empty.path / "new.json").read_text() != before


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.json", "{", "is not JSON"),
        ("a.json", '{"name": "x", "name": "y"}', "occurs twice"),
        ("a.yaml", "name: x", "is not JSON"),
    ],
)
def test_a_text_that_can_not_be_read_is_not_upgraded(
    empty: Home, name: str, text: str, reason: str
) -> None:
    put(empty, name, text)
    done = empty.run("app", "upgrade", name, "--in-place")
    assert (done.returncode, done.stdout) == (1, "")
    assert reason in done.stderr
    assert (empty.path / name).read_text() == text


def test_a_definition_goes_in_and_comes_out_byte_for_byte(home: Home) -> None:
    raw = ("\ufeff" + json.dumps(PROBE, indent=5) + "\r\n\n").encode()
    (home.path / "probe.json").write_bytes(raw)

    imported = json.loads(home.run("app", "import", "probe.json", "--json").stdout)
    again = home.run("app", "import", "probe.json")

    assert [one["action"] for one in imported["imported"]] == ["created"]
    assert again.stdout.startswith("unchanged 1 Probe 1.0")
    for word in (str(PROBE["uuid"]).upper(), "Sonda"):
        assert home.run("app", "export", word, "-o", f"out-{word}").returncode == 0
        assert (home.path / f"out-{word}").read_bytes() == raw
    refused = home.run("app", "export", "1", "-o", "out-Sonda")
    assert (refused.returncode, "already exists" in refused.stderr) == (1, True)


@pytest.mark.spec("2.1.2")
def test_fields_that_a_record_has_too_are_the_definitions_own(home: Home) -> None:
    own = {
        "id": "probe-7",
        "created_at": "yesterday",
        "enabled": "perhaps",
        "updated_at": None,
        "prefect_url": 7,
        "rule_selectors": {},
        "labels": ["x"],
        "company_id": "acme",
        "force": 1,
        "definition": {"any": "thing"},
    }
    raw = json.dumps(PROBE | own, indent=1).encode()
    (home.path / "own.json").write_bytes(raw)

    validated = home.run("app", "validate", "own.json")
    imported = home.run("app", "import", "own.json", "--json")
    again = home.run("app", "import", "own.json")
    applied = home.run("apply", "own.json", "--yes")
    exported = home.run("app", "export", "Probe", "-o", "out.json")

    done = (validated, imported, again, applied, exported)
    assert [one.returncode for one in done] == [0] * 5, [one.stderr for one in done]
    assert json.loads(imported.stdout)["imported"][0]["action"] == "created"
    assert again.stdout.startswith("unchanged")
    assert (home.path / "out.json").read_bytes() == raw


def test_an_older_version_is_imported_by_force_and_the_former_is_kept(home: Home) -> None:
    put(home, "new.json", {**PROBE, "version": "1.10"})
    put(home, "old.json", {**PROBE, "version": "1.9"})
    home.run("app", "import", "new.json")

    refused = home.run("app", "import", "old.json")
    forced = home.run("app", "import", "old.json", "--force")

    assert refused.returncode == 1
    assert refused.stdout.startswith("refused Probe 1.9 from old.json: ")
    assert "--force" in refused.stdout
    assert (forced.returncode, forced.stdout) == (0, "updated 1 Probe 1.9 from old.json\n")
    known = json.loads(home.run("app", "versions", "Probe", "--json").stdout)
    assert {number: one["version"] for number, one in known.items()} == {"1": "1.10"}
    assert home.run("app", "versions", "Probe").stdout.splitlines()[1].split()[:2] == ["1", "1.10"]


def test_an_error_in_any_file_stops_before_the_first_import(home: Home) -> None:
    put(home, "good.json", PROBE)
    put(home, "faulty.json", FAULTY)

    done = home.run("app", "import", "good.json", "faulty.json")

    assert done.returncode == 1
    assert "faulty.json:7:22: /environment/KIND/type" in done.stderr
    assert home.run("app", "list", "--json").stdout == "{}\n"


def test_two_definitions_are_compared_from_wherever_they_are(home: Home) -> None:
    put(home, "one.json", PROBE)
    put(home, "two.json", {**PROBE, "version": "2.0", "executable": "other"})
    home.run("app", "import", "one.json", "two.json")
    changes = [
        {"pointer": "/version", "change": "change", "before": "1.0", "after": "2.0"},
        {"pointer": "/executable", "change": "change", "before": "probe", "after": "other"},
    ]

    pairs = [("one.json", "two.json"), ("Probe@1", "1@2.0"), ("1@1.0", "two.json")]
    for before, after in pairs:
        listed = json.loads(home.run("app", "diff", before, after, "--json").stdout)
        assert listed == {"equal": False, "differences": changes}, (before, after)
    told = home.run("app", "diff", "one.json", str(PROBE["uuid"]))
    assert told.stdout.splitlines() == [
        "--- one.json",
        "+++ application 1 current",
        '~ /version: "1.0" → "2.0"',
        '~ /executable: "probe" → "other"',
    ]
    assert home.run("app", "diff", "1", "two.json").stdout.endswith("no difference\n")


def test_an_application_that_is_not_there_or_there_twice_is_said_so(home: Home) -> None:
    put(home, "one.json", PROBE)
    put(home, "two.json", {**PROBE, "uuid": "6a2c6d4e-30e4-4f6b-9d6e-7c8ad9f2b999"})
    home.run("app", "import", "one.json", "two.json")

    twice = home.run("app", "show", "Probe")
    missing = home.run("app", "export", "Nobody")
    version = home.run("app", "diff", "1@7", "1")

    assert "use one of the ids" in twice.stderr
    assert missing.stderr == "error: there is no application 'Nobody'; see: jobauto app list\n"
    assert "had no definition '7'" in version.stderr
    assert (twice.returncode, missing.returncode, version.returncode) == (1, 1, 1)


def test_texts_come_in_the_language_that_is_asked_for(home: Home) -> None:
    put(home, "probe.json", PROBE)
    home.run("app", "import", "probe.json")

    def name(*options: str, **more: str) -> str:
        return home.run("app", "list", *options, **more).stdout.splitlines()[1].split()[1]

    assert name(JOBAUTO_LANGUAGE="cs_CZ.UTF-8") == "Sonda"
    assert name("--lang", "de", JOBAUTO_LANGUAGE="cs") == "Probe"
    shown = home.run("app", "show", "1", "--lang", "cs").stdout
    assert "\n# Sonda\n" in shown
    assert "- `GREETING` (string, default `hello`): What to say" in shown


def test_pages_are_in_the_language_of_the_browser(rest: httpx.Client) -> None:
    assert rest.post("/app/", json=PROBE).status_code == 201
    czech = rest.get("/apps.html", headers={"Accept-Language": "cs-CZ,cs;q=0.9,en;q=0.8"})
    other = rest.get("/apps.html", headers={"Accept-Language": "fi"})
    assert (">Sonda<" in czech.text, ">Probe<" in czech.text) == (True, False)
    assert (">Sonda<" in other.text, ">Probe<" in other.text) == (False, True)
    assert "Accept-Language" in czech.headers["vary"]


def test_definitions_go_in_and_out_over_the_network(
    empty: Home, facade_url: str, ledger: Ledger
) -> None:
    raw = json.dumps(PROBE, indent=1).encode()
    (empty.path / "probe.json").write_bytes(raw)
    token = user_token(ledger)

    def over(*words: str) -> "subprocess.CompletedProcess[str]":
        return empty.run(*words, "--url", facade_url, JOBAUTO_TOKEN=token)

    assert over("app", "import", "probe.json").stdout.startswith("created ")
    assert over("app", "export", "Sonda").stdout.encode() == raw
    assert over("app", "diff", "probe.json", "Probe").stdout.endswith("no difference\n")
    assert not (empty.path / "home").exists()
