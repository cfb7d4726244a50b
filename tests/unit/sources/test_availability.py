"""Checks of availability: what may run, what is asked, what people are told."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.availability import (
    check_availability,
    fault_of_check,
    faults_of_values,
    may_run,
)
from tests.support.waits import eventually

SECRET = "s3cret-word"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose programs may be run."""
    (tmp_path / "checks").mkdir()
    return tmp_path / "checks"


@pytest.fixture
def settings(tmp_path: Path, folder: Path) -> Settings:
    return Settings(home=tmp_path, availability_commands=(str(folder),))


def program(folder: Path, text: str) -> str:
    path = folder / "check"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_only_programs_the_operator_names_may_run(settings: Settings, folder: Path) -> None:
    assert may_run(f"{folder}/check", settings)
    assert not may_run("/bin/sh", settings)
    assert not may_run(f"{folder}/../check", settings)
    assert not may_run("check", settings)
    assert not may_run(f"{folder}/check", Settings(home=settings.home))
    found = check_availability({"command": ["/bin/true"]}, {}, {}, settings)
    assert (found.is_there, "AVAILABILITY_COMMANDS" in found.reason) == (False, True)


def test_no_value_says_which_program_runs(settings: Settings, folder: Path) -> None:
    """Who writes a credential's values is not who names the programs."""
    check = {"command": [f"{folder}/{{KIND}}", "-c", "exit 0"]}
    found = check_availability(check, {"KIND": "../../../../../../../bin/sh"}, {}, settings)
    assert not found.is_there
    (fault,) = fault_of_check(check, settings, [{"keyword": "KIND"}])
    assert (fault.pointer, fault.rule) == ("/availability/command/0", "placeholder")


def test_a_command_gets_the_values_and_nothing_of_the_service(
    settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "of-the-service")
    argv = [program(folder, '[ "$PIN" = s3cret-word ] && [ "$1" = "db; id" ]'), "{HOST}"]
    check = {"command": argv}
    assert check_availability(check, {"HOST": "db; id"}, {"PIN": SECRET}, settings).is_there
    check = {"command": [program(folder, 'echo "$DB_PASSWORD"; exit 1')]}
    assert check_availability(check, {}, {}, settings).reason == "its check ended with 1"


def test_a_command_gets_no_value_that_changes_how_programs_run(
    settings: Settings, folder: Path
) -> None:
    check = {"command": [program(folder, 'test -z "$LD_AUDIT$BASH_ENV" && test "$HOST" = db')]}
    values = {"HOST": "db", "BASH_ENV": "/evil"}
    assert check_availability(check, values, {"LD_AUDIT": "x.so"}, settings).is_there


def test_the_reason_is_its_first_line_with_secrets_masked(settings: Settings, folder: Path) -> None:
    text = 'echo "closed, $PIN"; echo more; exit 75'
    check = {"command": [program(folder, text)]}
    found = check_availability(check, {}, {"PIN": SECRET}, settings)
    assert (found.is_there, found.reason) == (False, "closed, ********")


def test_a_command_that_is_not_there_says_what_to_do(settings: Settings, folder: Path) -> None:
    found = check_availability({"command": [str(folder / "absent")]}, {}, {}, settings)
    assert not found.is_there
    assert "can't be started (No such file or directory); install" in found.reason


def test_a_command_that_hangs_is_ended_with_its_children(settings: Settings, folder: Path) -> None:
    text = f"sleep 600 & echo $! > {folder}/pid; wait"
    command, told = program(folder, text), folder / "pid"
    for seconds in (0.5, 5, 60):  # more where it did not come to its second line
        check = {"command": [command], "timeout_seconds": seconds}
        found = check_availability(check, {}, {}, settings)
        assert found.reason == f"its check did not end within {seconds} seconds"
        if told.exists() and told.read_text():
            break
    eventually(lambda: ended(int(told.read_text())), 20)


def ended(process: int) -> bool:
    """Whether a process is gone, or waits for nothing but its parent."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] in "ZX"
    except OSError:
        return True


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://a.example/", "must be an address like https://"),
        ("file:///etc/passwd", "must be an address like https://"),
        ("gopher://127.0.0.1:70/", "must be an address like https://"),
        ("http://anna:pin@127.0.0.1:9/", "no user, password or fragment"),
        ("http://2852039166/", "169.254.169.254 can't be an availability check's"),
        ("http://0xa9fea9fe/", "169.254.169.254 can't be an availability check's"),
        ("http://169.254.169.254/", "can't be an availability check's"),
        ("http://[::ffff:169.254.169.254]/", "can't be an availability check's"),
        ("{HOST}", "can't be an availability check's"),
        ("http://127.0.0.1:9/", "it does not answer"),
        ("http://no-such-host.invalid/", "has no address"),
    ],
)
def test_a_url_goes_by_the_rules_for_targets(settings: Settings, url: str, reason: str) -> None:
    values = {"HOST": "http://169.254.169.254/"}
    check = {"url": url, "timeout_seconds": 60}
    found = check_availability(check, values, {}, settings)
    assert not found.is_there
    assert reason in found.reason


@contextmanager
def web(location: str) -> Iterator[tuple[str, list[str]]]:
    """A server whose `/moved` leads to `location`, and the paths it was asked for, with the header
    Authorization.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers['Authorization']}")
            moved = self.path == "/moved"
            self.send_response(302 if moved else 204)
            if moved:
                self.send_header("Location", location or f"http://{self.headers['Host']}/there")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    asked: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.mark.parametrize("location", ["http://169.254.169.254/", "file:///etc/passwd", ""])
def test_redirects_are_not_followed(settings: Settings, location: str) -> None:
    with web(location) as (url, asked):
        check = {"url": "{URL}/moved", "timeout_seconds": 60}
        found = check_availability(check, {"URL": url}, {"PIN": SECRET}, settings)
    assert asked == ["/moved None"]
    assert (found.is_there, found.reason) == (
        False,
        "127.0.0.1 answers 302; redirects are not followed",
    )


def test_nothing_secret_is_told_to_a_url(settings: Settings) -> None:
    with web("") as (url, asked):
        check = {"url": f"{url}/{{USER}}-{{PIN}}", "timeout_seconds": 60}
        assert check_availability(check, {"USER": "anna"}, {"PIN": SECRET}, settings).is_there
    assert asked == ["/anna- None"]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///etc/passwd", "https://"),
        ("gopher://x/", "https://"),
        ("{HOST", "https://"),
        ("https://anna:pin@{HOST}/", "no user, password"),
        ("https://{HOST}:{PORT}@x/", "no user, password"),
        ("http://169.254.169.254/latest/meta-data", "can't be an availability check's"),
        ("http://[fe80::1]:{PORT}/", "can't be an availability check's"),
        ("http://169.254.169.{PORT}/", "can't be an availability check's"),
    ],
)
def test_a_url_that_can_never_be_asked_is_refused_when_it_is_written(
    settings: Settings, url: str, message: str
) -> None:
    fields = [{"keyword": "HOST"}, {"keyword": "PORT"}]
    (fault,) = fault_of_check({"url": url}, settings, fields)
    assert (fault.pointer, fault.rule) == ("/availability/url", "target")
    assert message in fault.message
    for good in (
        "https://{HOST}:{PORT}/x?y={HOST}",
        "{HOST}/status",
        "http://10.0.0.1/",
        "http://localhost/",
    ):
        assert not list(fault_of_check({"url": good}, settings, fields))


def test_values_that_make_it_one_are_refused_and_incomplete_ones_are_not(
    settings: Settings,
) -> None:
    check = {"url": "{URL}/{PATH}"}

    def pointers(**values: str) -> list[str]:
        return [one.pointer for one in faults_of_values(check, values, settings)]

    assert pointers(URL="https://erp.example", PATH="a") == []
    assert pointers(URL="file:///etc/passwd") == []
    assert pointers(URL="file:///etc", PATH="passwd") == ["/values/URL"]
    assert pointers(URL="https://anna:pin@erp.example", PATH="a") == ["/values/URL"]
    assert pointers(URL="http://169.254.169.254", PATH="a") == ["/values/URL"]


def test_a_check_is_one_of_both_and_names_no_secret(settings: Settings) -> None:
    fields = [{"keyword": "HOST"}, {"keyword": "PIN", "type": "secret"}]

    def rules(check: dict[str, object]) -> list[str]:
        return [one.rule for one in fault_of_check(check, settings, fields)]

    assert rules({}) == ["required"]
    assert rules({"url": "http://x/", "command": ["x"]}) == ["required"]
    assert rules({"url": "http://{HOST}/{PIN}/{NONE}"}) == ["placeholder", "placeholder"]
    assert rules({"command": ["/bin/sh", "{PIN}"]}) == ["command", "placeholder"]
