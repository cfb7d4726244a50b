"""The command line against this machine's own ledger, with nothing else running."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.homes import APPLICATION, COMPANY, TEMPLATE, Home, InProcessHome
from tests.support.paths import JOBAUTO
from tests.support.ports import free_port


@pytest.fixture
def home(tmp_path: Path, prepared_home: Path) -> Home:
    """A home with key and tables; each command is a process."""
    shutil.copytree(prepared_home, tmp_path / "home")
    return Home(tmp_path)


@pytest.fixture
def home_here(home: Home) -> Home:
    """The same, whose commands run in this process."""
    return InProcessHome(home.path)


@pytest.fixture
def empty_home_here(tmp_path: Path) -> Home:
    """A home with nothing in it, whose commands run in this process."""
    return InProcessHome(tmp_path)


def test_a_home_without_key_or_tables_says_which_command_helps(
    empty_home: Home, empty_home_here: Home
) -> None:
    without_key = empty_home.run("app", "list")
    empty_home_here.run("secrets", "init")
    without_tables = empty_home_here.run("app", "list")
    empty_home_here.run("db", "upgrade")
    ready = empty_home_here.run("app", "list", "--json")

    assert (without_key.returncode, without_key.stdout) == (1, "")
    assert without_key.stderr.startswith("error: ")
    assert "there is no installation in" in without_key.stderr
    assert "jobauto up" in without_key.stderr
    assert "jobauto db upgrade" in without_tables.stderr
    assert (ready.returncode, ready.stdout) == (0, "{}\n")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("sqlite:///{}/text.db", "can't be used (file is not a database)"),
        ("postgresql://127.0.0.1:70000/x", "a number from 1 to 65535"),
    ],
)
def test_a_database_that_is_none_is_told_in_one_line(
    home_here: Home, address: str, message: str
) -> None:
    (home_here.path / "text.db").write_text("no database\n" * 100)

    ran = home_here.run("company", "list", JOBAUTO_DATABASE_URL=address.format(home_here.path))

    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert message in ran.stderr
    assert "JOBAUTO_DATABASE_URL" in ran.stderr


def test_the_check_of_the_tables_says_no_until_they_are_made(empty_home_here: Home) -> None:
    before = empty_home_here.run("db", "check", "--json")
    empty_home_here.run("db", "upgrade")
    after = empty_home_here.run("db", "check")

    assert before.returncode == 1
    assert json.loads(before.stdout)["version"] is None
    assert after.returncode == 0


def test_a_second_key_is_never_made(home_here: Home) -> None:
    key = (home_here.path / "home" / "secret.key").read_bytes()

    again = home_here.run("secrets", "init", "--json")

    assert json.loads(again.stdout)["created"] is False
    assert (home_here.path / "home" / "secret.key").read_bytes() == key


def test_every_error_of_every_file_is_told_before_anything_is_written(home_here: Home) -> None:
    home_here.write(
        app_json=json.dumps(APPLICATION),
        company_yaml=COMPANY + "env: {JOBAUTO_X: 1}\n---\n" + COMPANY,
        one_yaml=TEMPLATE + "interv: c\ncron: '61 * * * *'\nenv:\n  COUNT: many\n",
        two_yaml=TEMPLATE.replace("acme", "other").replace("Sonda", "Nothing"),
    )

    ran = home_here.run("apply", "files", "--yes")

    assert ran.returncode == 1
    lines = ran.stderr.splitlines()
    assert lines[0].endswith("nothing was changed")
    for expected in (
        "files/company.yaml:4:",
        "files/company.yaml:6:1: is declared twice",
        "files/one.yaml:6:7: /cron: ",
        "files/one.yaml:8:10: /env/COUNT: COUNT must be of type integer",
        "files/two.yaml:2:10: /company: there is no company 'other'",
        "files/two.yaml:3:6: /app: there is no application 'Nothing'",
    ):
        assert any(expected in line for line in lines), (expected, ran.stderr)
    assert home_here.run("app", "list", "--json").stdout == "{}\n"


def test_records_are_applied_while_prefect_is_away_and_a_second_time_nothing_changes(
    home_here: Home,
) -> None:
    home_here.write(app_json=json.dumps(APPLICATION), rest_yaml=f"{COMPANY}---\n{TEMPLATE}")

    looked = home_here.run("apply", "files", "--dry-run")
    applied = home_here.run("apply", "files", "--yes")
    again = json.loads(home_here.run("apply", "files", "--dry-run", "--json").stdout)
    home_here.write(rest_yaml=f"{COMPANY}---\n{TEMPLATE}interv: d\nenv: {{COUNT: 3}}\n")
    changed = json.loads(home_here.run("apply", "files", "--dry-run", "--json").stdout)

    assert looked.stdout.endswith("3 to create\n"), looked.stderr
    assert applied.returncode == 0, applied.stderr
    assert applied.stdout.endswith("3 created\n")
    assert "Prefect does not have 2 changes yet" in applied.stderr  # the flow and the deployment
    assert "Traceback" not in applied.stderr
    assert {change["action"] for change in again["changes"]} == {"unchanged"}
    assert changed["changes"][2]["fields"] == {
        "interv": {"before": "n", "after": "d"},
        "env.COUNT": {"before": None, "after": "3"},
    }


def test_the_help_says_the_addresses_that_people_open(empty_home_here: Home) -> None:
    (empty_home_here.path / "home").mkdir()
    first = empty_home_here.run("--help", COLUMNS="500").stdout
    (empty_home_here.path / "home" / "ports.json").write_text(
        '{"api_port": 8123, "prefect_port": 4321}'
    )
    later = empty_home_here.run("--help", COLUMNS="500").stdout

    assert "http://127.0.0.1:8000/api/v1/index.html" in first
    assert "http://127.0.0.1:4200" in first
    assert "http://127.0.0.1:8123/api/v1/index.html" in later
    assert "http://127.0.0.1:4321" in later


def test_a_file_of_values_that_is_not_one_is_a_wrong_use(empty_home_here: Home) -> None:
    (empty_home_here.path / "x.env").write_text("WHO=me\nhunter2\n")

    ran = empty_home_here.run("run", "acme/x", "--env-file", "x.env")

    assert ran.returncode == 2
    assert "x.env:2" in ran.stderr
    assert "hunter2" not in ran.stderr


def test_applying_asks_and_where_nobody_can_answer_it_is_a_wrong_use(home_here: Home) -> None:
    home_here.write(rest_yaml=COMPANY)

    ran = home_here.run("apply", "files")

    assert ran.returncode == 2
    assert "--yes" in ran.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["apply"],
        ["apply", "missing.yaml", "--yes"],
        ["apply", "", "--prune", "--yes"],
        ["run", "acme/x", "--env", "NO_VALUE"],
        ["token", "issue"],
        ["token", "issue", "--worker"],
        ["token", "issue", "--user", "a", "--worker", "--pool", "p"],
        ["token", "issue", "--user", "a", "--ttl", "soon"],
        ["user", "create", "a"],
        ["job", "show", "x"],
        ["job", "show", "9" * 19],
        ["job", "cancel", "9" * 5000],
    ],
    ids=lambda words: " ".join(words)[:60],
)
def test_a_wrong_command_line_ends_with_2_and_says_why(
    empty_home_here: Home, words: list[str]
) -> None:
    ran = empty_home_here.run(*words)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("Usage: jobauto")


def test_an_error_is_one_line_and_its_place_is_shown_on_demand(home: Home, home_here: Home) -> None:
    plain = home_here.run("job", "show", "99", "--json")
    traced = home.run("--debug", "job", "show", "99")

    assert (plain.returncode, plain.stdout, plain.stderr) == (1, "", "error: there is no job 99\n")
    assert "Traceback" in traced.stderr


def test_a_facade_that_does_not_answer_is_an_error_in_one_line(empty_home_here: Home) -> None:
    url = f"http://127.0.0.1:{free_port()}"

    ran = empty_home_here.run("job", "list", "--url", url, JOBAUTO_TOKEN="x")

    assert ran.returncode == 1
    assert f"the facade at {url} does not answer" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_token_is_not_sent_in_clear_to_another_machine(empty_home_here: Home) -> None:
    ran = empty_home_here.run("job", "list", "--url", "http://jobs.example.org", JOBAUTO_TOKEN="x")

    assert ran.returncode == 1
    assert "https" in ran.stderr


def test_definitions_come_over_standard_input_too(empty_home: Home, empty_home_here: Home) -> None:
    good = empty_home.run("app", "validate", "-", "--json", stdin=json.dumps(APPLICATION))
    bad = empty_home_here.run("app", "validate", "-", stdin='{\n "name": "x"}')

    assert (good.returncode, json.loads(good.stdout)["valid"]) == (0, True)
    assert bad.returncode == 1
    assert "-:1:1: error: the key 'executable' is missing" in bad.stdout


def test_there_are_no_colours_without_a_terminal_and_none_where_no_color_is_set(
    home: Home, home_here: Home
) -> None:
    import pty

    def on_terminal(**more: str) -> bytes:
        ours, theirs = pty.openpty()
        environment = home.environment | {"TERM": "xterm-256color", "COLUMNS": "80"} | more
        subprocess.run(
            [JOBAUTO, "company", "list"],
            env=environment,
            stdout=theirs,
            stderr=theirs,
            check=True,
        )
        os.close(theirs)
        return os.read(ours, 65536)

    home_here.write(rest_yaml=COMPANY)
    home_here.run("apply", "files", "--yes")

    assert b"\x1b[" not in home.run("company", "list").stdout.encode()
    assert b"\x1b[" in on_terminal()
    assert b"\x1b[3" not in on_terminal(NO_COLOR="1")


def test_a_worker_token_in_the_environment_is_out_of_it_before_the_worker_works(
    empty_home: Home,
) -> None:
    told = {
        "JOBAUTO_WORKER_TOKEN": "jobauto_worker_x",
        "JOBAUTO_URL": f"http://127.0.0.1:{free_port()}",
    }
    worker = subprocess.Popen(
        [JOBAUTO, "worker", "start", "--pool", "x"],
        env=empty_home.environment | told,
        cwd=empty_home.path,
    )
    try:
        process = Path(f"/proc/{worker.pid}")
        until = time.monotonic() + 90
        while b"--token-file" not in (process / "cmdline").read_bytes():
            assert time.monotonic() < until
            time.sleep(0.01)
        environment = (process / "environ").read_bytes()
    finally:
        worker.kill()
        worker.wait()

    assert b"JOBAUTO_HOME" in environment
    assert b"jobauto_worker_x" not in environment


def test_what_never_ends_is_read_up_to_a_limit(
    home_here: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobauto_prefect.cli.files.reader.MOST_BYTES", 3 * 1024**2)
    folder = tmp_path / "folder"
    folder.mkdir()
    with (folder / "large.yaml").open("wb") as sparse:
        sparse.truncate(10 * 1024**3)
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen(["bash", "-c", f"cat /dev/zero >{tmp_path / 'pipe'}"])
    try:
        for endless in ("/dev/zero", str(folder), str(tmp_path / "pipe")):
            for command in ("plan", "app validate"):
                if command == "app validate" and endless.endswith("pipe"):
                    continue
                ran = home_here.run(*command.split(), endless)
                assert ran.returncode == 1, ran.stderr
                said = ran.stderr + ran.stdout
                assert "at most 3 MiB are read from all files together" in said
    finally:
        writer.kill()
        writer.wait()
