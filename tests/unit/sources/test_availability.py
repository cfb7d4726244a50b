"""Checks of availability: what may run, what is asked, what people are told."""

from pathlib import Path

import pytest

from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.availability import check_availability, fault_of_check, may_run
from tests.plant import eventually

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


def test_a_command_gets_the_values_and_nothing_of_the_service(
    settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "of-the-service")
    argv = [program(folder, '[ "$PIN" = s3cret-word ] && [ "$1" = "db; id" ]'), "{HOST}"]
    check = {"command": argv}
    assert check_availability(check, {"HOST": "db; id"}, {"PIN": SECRET}, settings).is_there
    check = {"command": [program(folder, 'echo "$DB_PASSWORD"; exit 1')]}
    assert check_availability(check, {}, {}, settings).reason == "its check ended with 1"


def test_the_reason_is_its_first_line_with_secrets_masked(settings: Settings, folder: Path) -> None:
    text = 'echo "closed, $PIN"; echo more; exit 75'
    check = {"command": [program(folder, text)]}
    found = check_availability(check, {}, {"PIN": SECRET}, settings)
    assert (found.is_there, found.reason) == (False, "closed, ********")


def test_a_command_that_hangs_is_ended_with_its_children(settings: Settings, folder: Path) -> None:
    text = f"sleep 600 & echo $! > {folder}/pid; wait"
    check = {"command": [program(folder, text)], "timeout_seconds": 0.5}
    found = check_availability(check, {}, {}, settings)
    assert found.reason == "its check did not end within 0.5 seconds"
    eventually(lambda: ended(int((folder / "pid").read_text())), 20)


def ended(process: int) -> bool:
    """Whether a process is gone, or waits for nothing but its parent."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] in "ZX"
    except OSError:
        return True


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://a.example/", "no http or https"),
        ("http://169.254.169.254/", "can't be an availability check's"),
        ("http://[::ffff:169.254.169.254]/", "can't be an availability check's"),
        ("{HOST}", "can't be an availability check's"),
        ("http://127.0.0.1:9/", "it does not answer"),
        ("http://no-such-host.invalid/", "has no address"),
    ],
)
def test_a_url_goes_by_the_rules_for_targets(settings: Settings, url: str, reason: str) -> None:
    values = {"HOST": "http://169.254.169.254/"}
    found = check_availability({"url": url}, values, {}, settings)
    assert not found.is_there
    assert reason in found.reason


def test_a_check_is_one_of_both_and_names_no_secret(settings: Settings) -> None:
    fields = [{"keyword": "HOST"}, {"keyword": "PIN", "type": "secret"}]

    def rules(check: dict[str, object]) -> list[str]:
        return [one.rule for one in fault_of_check(check, settings, fields)]

    assert rules({}) == ["required"]
    assert rules({"url": "http://x/", "command": ["x"]}) == ["required"]
    assert rules({"url": "http://{HOST}/{PIN}/{NONE}"}) == ["placeholder", "placeholder"]
    assert rules({"command": ["/bin/sh", "{PIN}"]}) == ["command", "placeholder"]
