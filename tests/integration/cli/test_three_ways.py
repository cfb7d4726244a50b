"""A command says and does the same without a service, at its socket, and by `--url`."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.main import get_command

from jobauto_prefect.cli.app import app
from jobauto_prefect.facade.stock_credential_types import add_stock_types
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.settings import Settings
from tests.support.definitions import PROBE
from tests.support.homes import Home, InProcessHome, Served
from tests.support.paths import JOBAUTO, ROOT

SEPARATOR = re.compile(r"\s+·\s+")
VARYING = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.+]+Z?|\b[0-9a-f-]{32,36}\b|\d+\.\d s")
STARTS = re.compile(
    r".*jobauto (up|demo|restore|backup|api|prefect|services|worker start|secrets|db|top"
    r"|--install-completion)\b"
)
NOT_COMPARED = re.compile(r"\[(-|[A-Za-z])|…|--help|jobauto (doctor|audit|token|files)")
"""Synopses, and what tells of the way that was taken or is new each time."""
COMMANDS = (
    ("app import apps/", 0),
    ("apply records.json --yes", 0),
    ("plan records.json", 0),
    ("company create other name=Other --json", 0),
    ("company set other email=a@example.org", 0),
    ("template list --company acme --active --columns id,name,cron", 0),
    ("app list --lang cs --columns id,name,category", 0),
    ("app list --columns id,nothing", 2),
    ("run acme/Nightly", 0),
    ("company show acme --json", 0),
    ("job show 99", 1),
    ("job list --state scheduled", 0),
    ("task list", 0),
    ("event list --state dead", 0),
    ("forecast --days 1", 0),
    ("prune --dry-run", 0),
    ("prune --dry-run --json", 0),
    ("prune", 0),
    ("export --company acme", 0),
    ("export --company nobody", 1),
    ("apply empty.yaml --prune --label team --yes", 0),
    ("apply null.json --prune --label team --yes", 0),
    ("apply nothing/ --prune --label team --yes", 0),
    ("plan merged.yaml", 3),
    ("plan latin.yaml", 1),
    ("plan large.yaml", 1),
    ("topic show missing", 1),
    ("company delete other --yes", 0),
)  # fmt: skip


def write_files(folder: Path) -> None:
    """The files that the commands name."""
    (folder / "apps").mkdir()
    (folder / "nothing").mkdir()
    probe = {**PROBE, "uuid": "00000000-0000-4000-8000-00000000aaaa", "name": "Probe"}
    localized = {
        **PROBE,
        "uuid": "00000000-0000-4000-8000-00000000bbbb",
        "name": {"en": "Other", "cs": "Jiná"},
        "company": "spare",
    }
    records = [
        {"kind": "company", "slug": "acme", "name": "Acme", "labels": ["team"]},
        {"kind": "company", "slug": "spare", "name": "Spare"},
        {"kind": "runtemplate", "company": "acme", "app": "Probe", "name": "Nightly"},
        localized,
    ]
    (folder / "apps" / "probe.json").write_text(json.dumps(probe))
    (folder / "records.json").write_text(json.dumps(records))
    (folder / "empty.yaml").write_text("# nothing\n---\n")
    (folder / "null.json").write_text("null")
    (folder / "merged.yaml").write_text(
        "- &base {kind: company, slug: one, name: One}\n- {<<: *base, slug: two}\n"
    )
    (folder / "latin.yaml").write_bytes("kind: company\nname: Kůň\n".encode("iso-8859-2"))
    (folder / "large.yaml").write_text("# " + "x" * 20_000_000)


@pytest.fixture(scope="module")
def ways(
    tmp_path_factory: pytest.TempPathFactory, prepared_home: Path
) -> Iterator[dict[str, tuple[Home, list[str]]]]:
    """Homes by way, with what is added to a command; each has the same in it."""
    made: dict[str, tuple[Home, list[str]]] = {}
    services = []
    for way in ("alone", "socket", "url"):
        path = tmp_path_factory.mktemp(way)
        shutil.copytree(prepared_home, path / "home")
        write_files(path)
        home = InProcessHome(path)
        more: list[str] = []
        if way != "alone":
            served = Served(path)
            services.append(served)
            home.environment = served.environment
        else:  # as the first start of a service makes them
            settings = Settings(home=path / "home")
            with closing(open_ledger(settings)) as ledger:
                add_stock_types(ledger, settings)
        home.run("user", "create", "root", "--role", "super_admin", "--password-stdin",
                 stdin="Dlouhe.heslo-77\n")  # fmt: skip
        if way == "url":
            token = home.run("token", "issue", "--user", "root").stdout.strip()
            home.environment = {**home.environment, "JOBAUTO_TOKEN": f"{token}\n"}
            more = ["--url", f"http://127.0.0.1:{home.environment['JOBAUTO_API_PORT']}/"]
        made[way] = home, more
    yield made
    for served in services:
        served.end()


def test_commands_say_the_same_in_all_three_ways(ways: dict[str, tuple[Home, list[str]]]) -> None:
    different = []
    for words, code in COMMANDS:
        said = {}
        for way, (home, more) in ways.items():
            done = home.run(*words.split(), *more)
            assert done.returncode == code, (way, words, done.stdout, done.stderr)
            assert "unexpected" not in done.stderr, (way, words)
            said[way] = VARYING.sub("…", done.stdout)
        if len(set(said.values())) > 1:
            different.append((words, said))

    assert different == []


def examples() -> Iterator[str]:
    """Every example of every help."""
    waiting = [get_command(app)]
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        for block in re.findall(r"Examples?: (.*?)(?:\n\n|\Z)", command.help or "", re.DOTALL):
            yield from SEPARATOR.split(" ".join(block.split()))


def documented() -> Iterator[str]:
    """Every command line in README and docs, without what it is piped to."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text().replace("\\\n", " ")
        blocks = re.findall(r"^```(?:sh|console|bash)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        lines = [line for block in blocks for line in block.splitlines()]
        for line in (*lines, *re.findall(r"`(jobauto [^`\n]+)`", text)):
            if called := re.match(r"(?:\$ )?(jobauto .+?)(?: +#.*| [|>&] .*)?$", line.strip()):
                yield called[1]


@pytest.mark.soak
def test_all_documented_command_lines_say_the_same_in_all_three_ways(
    ways: dict[str, tuple[Home, list[str]]],
) -> None:
    different = []
    lines = {line for line in (*documented(), *examples()) if not STARTS.match(line)}
    for line in sorted(line for line in lines if not NOT_COMPARED.search(line)):
        said = {}
        for way, (home, more) in ways.items():
            words = shlex.split(line.partition("jobauto ")[2])
            done = home.run(*words, *more, stdin="Dlouhe.heslo-77\n")
            assert "error: unexpected" not in done.stderr, (way, line, done.stderr)
            if "No such option: --url" not in done.stderr:  # it needs no service
                said[way] = done.returncode, VARYING.sub("…", done.stdout)
        if len(set(said.values())) > 1:
            different.append((line, said))

    assert not different, "\n".join(map(str, different))


@pytest.mark.parametrize("example", sorted({one for one in examples() if not STARTS.match(one)}))
def test_an_example_of_the_help_is_a_command_line(
    example: str, ways: dict[str, tuple[Home, list[str]]]
) -> None:
    """What it names need not be there: 1 is an answer, 2 a wrong command line."""
    called = re.sub(r"^.*\| (?=jobauto)| [|>] .*$", "", example)
    words = shlex.split(called.partition("jobauto ")[2])
    done = ways["socket"][0].run(*words, stdin="Dlouhe.heslo-77\n")

    absent = re.search(
        "no terminal to ask|there is no file|does not exist|no file or folder",
        done.stderr,
    )
    assert "unexpected" not in done.stderr
    assert done.returncode != 2 or absent, done.stderr


@pytest.mark.parametrize(
    ("words", "variables", "told"),
    [
        ("app list --url http://127.0.0.1:9", {"JOBAUTO_TOKEN": "a b"}, "JOBAUTO_TOKEN"),
        ("app list --url http://127.0.0.1:9", {"JOBAUTO_TOKEN": "ž"}, "JOBAUTO_TOKEN"),
        ("app list", {"DB_CONNECTION": "pgsql", "DB_PORT": "abc", "DB_DATABASE": "x"}, "DB_PORT"),
        ("app list", {"JOBAUTO_DATABASE_URL": "mysql://root@127.0.0.1/x"}, "mysql"),
        ("app list", {"JOBAUTO_DATABASE_URL": "nonsense"}, "JOBAUTO_DATABASE_URL"),
        ("secrets init", {"JOBAUTO_HOME": "records.json"}, "Not a directory"),
    ],
)  # fmt: skip
def test_what_can_not_work_is_one_line(
    words: str, variables: dict[str, str], told: str, ways: dict[str, tuple[Home, list[str]]]
) -> None:
    done = ways["alone"][0].run(*words.split(), **{"JOBAUTO_TOKEN": "x"} | variables)

    assert done.returncode == 1
    assert told in done.stderr
    assert "unexpected" not in done.stderr
    assert "hunter2" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("app list --url http://127.0.0.1:99999", "is not an address"),
        ("app list --url http://127.0.0.1:port", "is not an address"),
        ("app list --url http://[::1", "is not an address"),
        ("app list --url 127.0.0.1:8000", "is not an address"),
        ("app list --url ftp://localhost", "is not an address"),
        ("app list --url=", "is not an address"),
        ("app list --url http://127.0.0.1:9/?a=b", "? or #"),
        ("app list --url http://me:hunter2@127.0.0.1:9", "has credentials in it"),
        ("worker start --pool x --token-file absent", "can't be read"),
        ("restore absent.backup --passphrase-stdin", "does not exist"),
    ],
)
def test_an_option_that_can_not_be_meant_is_a_wrong_use(
    words: str, told: str, ways: dict[str, tuple[Home, list[str]]]
) -> None:
    done = ways["alone"][0].run(*words.split(), JOBAUTO_TOKEN="x")

    assert (done.returncode, done.stdout) == (2, "")
    said = " ".join(done.stderr.replace("\u2502", " ").split())
    assert told in said
    assert "hunter2" not in said
    assert done.stderr.startswith("Usage: jobauto")


def test_what_was_typed_is_named_as_it_was_typed(ways: dict[str, tuple[Home, list[str]]]) -> None:
    home = ways["alone"][0]
    home.run("app", "import", "apps/")
    home.run("apply", "records.json", "--yes")
    cron = home.run("template", "set", "acme/Nightly", "cron=61 * * * *", "interv=c")
    columns = home.run("job", "list", "--limit", "0")

    assert "cron" in cron.stderr
    assert "/cron" not in cron.stderr
    assert "/limit" not in columns.stderr


@pytest.mark.parametrize(
    ("redirection", "code", "told"),
    [
        (">&-", 0, "standard output is closed"),
        ("2>&-", 0, ""),
        ("<&-", 0, ""),
        (">/dev/full", 1, "No space left on device"),
    ],
)
def test_outputs_that_are_closed_or_full_are_no_surprise(
    redirection: str, code: int, told: str, ways: dict[str, tuple[Home, list[str]]]
) -> None:
    home = ways["socket"][0]
    done = subprocess.run(
        ["bash", "-c", f"{JOBAUTO} company list --json {redirection}"],
        env=home.environment | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert "unexpected" not in done.stderr
    assert "Exception" not in done.stderr
