"""`--json` of every command is what `docs/cli.md` says it is."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from jobauto_prefect.cli.app import app
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import Delivery, Event, OutputLine, Task
from jobauto_prefect.ledger.states import TaskState
from jobauto_prefect.settings import Settings
from tests.support.databases import database
from tests.support.definitions import PROBE
from tests.support.homes import InProcessHome
from tests.support.paths import ROOT
from tests.support.secrets import SECRET, secret

ROW = re.compile(r"^\| `(jobauto [a-z -]+)` \| (record|records|lines|keys)\b(.*) \|$")
STARTS_PROCESSES = {"jobauto up", "jobauto worker lost"}
PLACE = ("JOBAUTO_HOME", "JOBAUTO_CONFIG_DIR")
BROKEN_SOURCE = 1  # the exit code of testing one that is not there

FILES = [
    {"kind": "company", "slug": "acme", "name": "Acme"},
    {"kind": "runtemplate", "company": "acme", "app": "Probe", "name": "One"},
]
CREDENTIAL_TYPE = {
    "kind": "credential_type",
    "code": "post",
    "name": "Post",
    "fields": [{"keyword": "KEY", "type": "secret"}],
}
SCENARIO: tuple[tuple[str, str, str, int], ...] = (
    # command, its further words, standard input, exit code
    ("secrets init", "", "", 0),
    ("db upgrade", "", "", 0),
    ("db check", "", "", 0),
    ("app validate", "probe.json", "", 0),
    ("app upgrade", "old.json", "", 0),
    ("app import", "probe.json", "", 0),
    ("app list", "", "", 0),
    ("app show", "Probe", "", 0),
    ("app disable", "Probe", "", 0),
    ("app enable", "Probe", "", 0),
    ("app versions", "Probe", "", 0),
    ("app diff", "Probe probe.json", "", 0),
    ("plan", "files.json", "", 3),
    ("apply", "files.json --yes", "", 0),
    ("company create", "other name=Other", "", 0),
    ("company set", "other email=a@example.org --env TOWN=Brno", "", 0),
    ("company show", "acme", "", 0),
    ("company list", "--enabled", "", 0),
    ("template create", "acme/Two app=Probe --env COUNT=2 --secret PASSWORD", f"{SECRET}\n", 0),
    ("template set", "acme/Two note=Hello --unset COUNT", "", 0),
    ("template show", "acme/Two", "", 0),
    ("template list", "--company acme --app Probe --active", "", 0),
    ("credential-type create", "bank fields=[{\"keyword\":\"PIN\",\"type\":\"secret\"}]", "", 0),
    ("credential-type set", "bank version=2", "", 0),
    ("credential-type show", "bank", "", 0),
    ("credential-type list", "", "", 0),
    ("credential-type import", "type.json", "", 0),
    ("credential create", "acme/Main credential_type=bank --secret PIN", f"{SECRET}\n", 0),
    ("credential set", "acme/Main --secret PIN", secret("5678"), 0),
    ("credential show", "acme/Main", "", 0),
    ("credential list", "--company acme --type bank", "", 0),
    ("topic create", "money", "", 0),
    ("topic set", "money color=00FF00", "", 0),
    ("topic show", "money", "", 0),
    ("topic list", "", "", 0),
    ("calendar create", 'Closing days=[{"date":"2026-12-24"}]', "", 0),
    ("calendar set", "Closing timezone=Europe/Prague", "", 0),
    ("calendar show", "Closing", "", 0),
    ("calendar list", "", "", 0),
    ("topic attach", "money --company acme --template acme/One", "", 0),
    ("topic detach", "money --company acme --template acme/One", "", 0),
    ("source create", "Hooks db_connection=sqlite db_database=/nowhere/hooks.db", "", 0),
    ("source set", "Hooks poll_interval=30 --secret db_password", f"{SECRET}\n", 0),
    ("source show", "Hooks", "", 0),
    ("source list", "--enabled", "", 0),
    ("source test", "Hooks", "", BROKEN_SOURCE),
    ("rule create", "event_source=Hooks runtemplate=acme/One", "", 0),
    ("rule set", "1 priority=5", "", 0),
    ("rule show", "1", "", 0),
    ("rule suggest", "acme/One acme/One", "", 0),
    ("rule list", "--template acme/One --source Hooks", "", 0),
    ("run", "acme/Two", "", 0),
    ("job list", "--state scheduled --template acme/Two", "", 0),
    ("job show", "1", "", 0),
    ("job logs", "1", "", 0),
    ("job cancel", "1", "", 0),
    ("job retry", "1", "", 0),
    ("worker list", "", "", 0),
    ("task list", "--template acme/One", "", 0),
    ("task show", "1", "", 0),
    ("task excuse", "1 --why holiday", "", 0),
    ("task retry", "1", "", 0),
    ("event list", "--source Hooks --state dead", "", 0),
    ("event show", "1", "", 0),
    ("event replay", "1", "", 0),
    ("forecast", "--days 1", "", 0),
    ("top", "", "", 0),
    ("reconcile", "", "", 0),
    ("prune", "", "", 0),
    ("pause", "--reason maintenance --until +2h", "", 0),
    ("resume", "", "", 0),
    ("user create", "anna --role editor --password-stdin", secret("Dlouhe.heslo-77"), 0),
    ("user passwd", "anna --password-stdin", secret("Jine.heslo-88"), 0),
    ("user roles", "anna viewer", "", 0),
    ("user disable", "anna", "", 0),
    ("user show", "anna", "", 0),
    ("company member set", "acme anna --role manager", "", 0),
    ("company member list", "acme", "", 0),
    ("company member remove", "acme anna", "", 0),
    ("user list", "", "", 0),
    ("token issue", "--worker --pool main", "", 0),
    ("token list", "", "", 0),
    ("token revoke", "1", "", 0),
    ("audit list", "--action create", "", 0),
    ("audit verify", "", "", 0),
    ("audit archive", ".", "", 0),
    ("secrets rotate", "--settle 0", "", 0),
    ("backup", "json.backup --passphrase-stdin", secret("passphrase"), 0),
    ("restore", "json.backup --passphrase-stdin", secret("passphrase"), 0),
    ("doctor", "", "", 1),
    ("files", "shipped", "", 0),
    ("user delete", "anna --yes", "", 0),
    ("job delete", "1 --yes", "", 0),
    ("rule delete", "1 --yes", "", 0),
    ("source delete", "Hooks --yes", "", 0),
    ("topic delete", "money --yes", "", 0),
    ("calendar delete", "Closing --yes", "", 0),
    ("credential delete", "acme/Main --yes", "", 0),
    ("credential-type delete", "bank --yes", "", 0),
    ("template create", "acme/Three app=Probe", "", 0),
    ("template delete", "acme/Three --yes", "", 0),
    ("company delete", "other --yes", "", 0),
    ("app import", "spare.json", "", 0),
    ("app delete", "Spare --yes", "", 0),
    ("db move", "--ledger POSTGRESQL", "", 0),
)  # fmt: skip


def commands() -> Iterator[str]:
    """Every command that has --json."""
    waiting = [("jobauto", get_command(app))]
    while waiting:
        name, command = waiting.pop()
        waiting += [
            (f"{name} {word}", one) for word, one in getattr(command, "commands", {}).items()
        ]
        if any(parameter.name == "as_json" for parameter in command.params):
            yield name


def documented() -> dict[str, tuple[str, list[str]]]:
    """Command -> how it prints, and the words in backticks."""
    text = (ROOT / "docs" / "cli.md").read_text().partition("## JSON")[2]
    found = (ROW.match(line) for line in text.splitlines())
    return {one[1]: (one[2], re.findall(r"`([\w]+)`", one[3])) for one in found if one}


def test_the_json_of_every_command_is_documented_and_tried() -> None:
    tried = {f"jobauto {command}" for command, *_ in SCENARIO}

    assert set(commands()) - set(documented()) == set(), "below JSON in docs/cli.md"
    assert set(documented()) - set(commands()) == set()
    assert set(commands()) - tried - STARTS_PROCESSES == set(), "in SCENARIO here"


@pytest.fixture
def postgresql_url(tmp_path: Path, migrate_once: Callable[[str], str]) -> Iterator[str]:
    """A database with our tables, and no rows."""
    with database("postgresql", tmp_path, migrate_once("postgresql")) as url:
        yield url


def test_every_command_prints_the_json_that_is_documented(
    tmp_path: Path, prefect_server: str, postgresql_url: str
) -> None:
    home = InProcessHome(tmp_path)
    home.environment |= {"PREFECT_API_URL": prefect_server, "JOBAUTO_POOL": "json"}
    definition = {**PROBE, "uuid": "00000000-0000-4000-8000-00000000aaaa", "name": "Probe"}
    spare = {**PROBE, "uuid": "00000000-0000-4000-8000-00000000bbbb", "name": "Spare"}
    files = {
        "spare": spare,
        "probe": definition,
        "files": FILES,
        "old": definition,
        "type": CREDENTIAL_TYPE,
    }
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))

    documented_keys = documented()
    for command, words, stdin, code in SCENARIO:
        if command == "job logs":
            add_what_takes_a_worker(home)
        place = dict.fromkeys(PLACE, str(tmp_path / "new")) if command == "restore" else {}
        done = home.run(
            *command.split(),
            *words.replace("POSTGRESQL", postgresql_url).split(" " if words else None),
            "--json",
            stdin=stdin,
            **place,
        )
        assert done.returncode == code, (command, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        how, named = documented_keys[f"jobauto {command}"]
        for one in printed(how, done.stdout):
            assert fits(one, named) == [], (command, one)


def add_what_takes_a_worker(home: InProcessHome) -> None:
    """A line of output, a window that was missed, an event whose rule could not start."""
    path = Path(home.environment["JOBAUTO_HOME"])
    ledger = open_ledger(Settings(home=path))
    now = datetime.now(UTC)
    with ledger.writing(SERVICE) as session:
        session.add(OutputLine(job_id=1, seq=1, stream="stdout", text="hello", at=now))
        later = now + timedelta(days=1)
        window = Task(runtemplate_id=1, window_start=now, window_end=later, deadline=later)
        window.state = TaskState.MISSED
        session.add(window)
        members = {"operation": "create", "data": {}, "created_at": now, "emitted_at": now}
        event = Event(kind="change", event_source_id=1, inversion=1, digest="x", **members)
        dead = Delivery(event=event, rule_id=1, state="dead", error="away", created_at=now)
        session.add_all([event, dead])
    ledger.close()


def printed(how: str, text: str) -> list[Any]:
    """The objects whose members are documented."""
    if how == "lines":
        found = [json.loads(line) for line in text.splitlines()]
    elif how == "records":
        found = [*json.loads(text).values()]
    else:
        return [json.loads(text)]
    if how == "lines":
        assert found
    return found


def fits(value: Mapping[str, Any], named: list[str]) -> list[str]:
    """What is wrong with the members of an object; a schema's name stands for its members."""
    schemas = [name for name in named if name[0].isupper()][:1]
    members = {name for name in named if name[0].islower()}
    required, known = set(members), set(members)
    for name in schemas:
        needs, has = fields_of(name)
        required |= needs
        known |= has
    missing = required - set(value)
    more = set() if "Application" in schemas else set(value) - known - {"warnings"}
    return [
        *(f"{one} is missing" for one in missing),
        *(f"{one} is not documented" for one in more),
    ]


@cache
def fields_of(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """The members a schema of the REST contract requires, and all it has."""
    schemas = json.loads((ROOT / "api" / "openapi.json").read_text())["components"]["schemas"]
    required, known = set[str](), set[str]()
    parts = [schemas[name]]
    while parts:
        part = parts.pop()
        required |= {*part.get("required", ())}
        known |= {*part.get("properties", {})}
        parts += part.get("allOf", ())
        if "$ref" in part:
            parts.append(schemas[part["$ref"].rpartition("/")[2]])
    return frozenset(required), frozenset(known)


def test_a_schema_that_is_not_kept_is_noticed() -> None:
    assert fits({"id": 1}, ["id", "deleted"]) == ["deleted is missing"]
    assert fits({"id": 1, "more": 2}, ["id"]) == ["more is not documented"]
    assert "slug is missing" in fits({"id": 1}, ["Company"])
