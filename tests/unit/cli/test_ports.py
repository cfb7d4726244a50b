"""Which ports a service is started with."""

from pathlib import Path

from jobauto_prefect.cli.service.addresses import FILE, choose_ports, read_ports, save_ports
from jobauto_prefect.settings import Settings

UNSAID = {"api_port": None, "prefect_port": None}


def test_the_first_time_the_defaults_count(tmp_path: Path) -> None:
    assert choose_ports(Settings(home=tmp_path), UNSAID) == {}


def test_the_next_time_those_of_the_last(tmp_path: Path) -> None:
    save_ports(Settings(home=tmp_path, api_port=8123, prefect_port=4321))

    assert choose_ports(Settings(home=tmp_path), UNSAID) == {"api_port": 8123, "prefect_port": 4321}
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_settings_win_over_the_last_time_and_options_over_settings(tmp_path: Path) -> None:
    save_ports(Settings(home=tmp_path, api_port=8123, prefect_port=4321))
    settings = Settings(home=tmp_path, api_port=8200, prefect_port=4300)

    found = choose_ports(settings, {"api_port": 8300, "prefect_port": None})

    assert found == {"api_port": 8300, "prefect_port": 4300}


def test_what_is_no_memory_of_ports_is_none(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"api_port": null}')

    assert read_ports(tmp_path) == {}
