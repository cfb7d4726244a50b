"""Passwords: how they are compared, what is remembered of them, and which are good enough."""

import contextlib
import unicodedata
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta

import pytest
from argon2 import PasswordHasher

from jobauto_prefect.facade.auth import passwords
from jobauto_prefect.facade.auth.passwords import (
    PasswordVerifier,
    hash_password,
    password_faults,
    password_matches,
)

PASSWORD = "kůň: žluťoučký 1"
STORED = hash_password(PASSWORD)


def test_a_password_matches_its_own_hash_and_no_other() -> None:
    assert STORED.startswith("$argon2id$")
    assert not PasswordHasher().check_needs_rehash(STORED)
    assert password_matches(STORED, PASSWORD)
    assert not password_matches(STORED, PASSWORD + " ")
    assert not password_matches(None, PASSWORD)
    assert not password_matches("", PASSWORD)
    assert not password_matches("no hash", PASSWORD)


def test_a_letter_is_the_same_however_a_keyboard_composes_it() -> None:
    decomposed = unicodedata.normalize("NFD", PASSWORD)
    assert decomposed != PASSWORD
    assert password_matches(STORED, decomposed)


def test_half_a_character_is_a_wrong_password_and_no_failure() -> None:
    assert not password_matches(STORED, "\ud800")
    assert not PasswordVerifier().matches(1, STORED, "\ud800")


def test_the_comparison_for_nobody_costs_what_every_other_does() -> None:
    assert not PasswordHasher().check_needs_rehash(passwords._DUMMY_HASH)


class Time:
    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def _compares(remembered: PasswordVerifier, *asked: object, within: float = 0.3) -> bool:
    """Whether the answer, which is yes, takes a comparison: none can be made `within` seconds."""
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as taken:
        for _ in range(passwords._CONCURRENT):
            taken.enter_context(passwords._concurrent)
        answer = pool.submit(remembered.matches, *asked)  # type: ignore[arg-type]
        waiting = not wait([answer], timeout=within).done
        taken.close()
        assert answer.result()
    return waiting


def test_a_password_that_matched_is_remembered_for_five_minutes() -> None:
    clock = Time()
    remembered = PasswordVerifier(clock)
    assert _compares(remembered, 1, STORED, PASSWORD)
    assert not _compares(remembered, 1, STORED, PASSWORD, within=30)
    clock.now += timedelta(minutes=5)
    assert _compares(remembered, 1, STORED, PASSWORD)


def test_what_is_remembered_is_bound_to_user_hash_and_password() -> None:
    remembered = PasswordVerifier()
    assert remembered.matches(1, STORED, PASSWORD)
    changed = hash_password("another long word")
    assert not remembered.matches(1, changed, PASSWORD)
    assert not remembered.matches(1, STORED, "another long word")
    assert not remembered.matches(1, None, PASSWORD)
    assert not remembered.matches(None, STORED, PASSWORD)
    assert _compares(remembered, 2, STORED, PASSWORD)


def test_a_wrong_password_is_not_remembered() -> None:
    remembered = PasswordVerifier()
    assert not remembered.matches(1, STORED, "wrong")
    assert not remembered.matches(1, STORED, "wrong")
    assert len(remembered._until) == 0


def test_what_is_remembered_is_bounded_and_holds_no_password() -> None:
    remembered = PasswordVerifier()
    for number in range(passwords.MAX_REMEMBERED + 3):
        remembered._remember(str(number).encode())
    assert len(remembered._until) == passwords.MAX_REMEMBERED
    assert remembered.matches(1, STORED, PASSWORD)
    assert PASSWORD not in repr(vars(remembered))
    assert PASSWORD.encode() not in b"".join(remembered._until)


@pytest.mark.parametrize(
    ("password", "rule"),
    [
        ("", "min_length"),
        ("Xk3$9q-", "min_length"),
        ("x" * 1001, "max_length"),
        ("line\nbreak in it", "text"),
        ("nul\0nul\0nul\0", "text"),
        ("half \ud800 a character", "text"),
        ("password", "common"),
        ("Passw0rd1", "common"),
        ("12345678", "common"),
        ("qwertyuiop", "common"),
        ("aaaaaaaaaaaa", "common"),
        ("my-Eva-horse-cloud-93", "login"),
    ],
)
def test_a_weak_password_is_refused_by_rule_and_not_repeated(password: str, rule: str) -> None:
    faults = password_faults(password, "eva")
    assert [fault.rule for fault in faults] == [rule]
    assert password in ("", "password") or password not in str(faults)


@pytest.mark.parametrize(
    "password",
    ["long enough", "kůň:heslo 1", "correct horse battery", "Xk3$9q-Lm2", "雪が降る朝の駅前"],
)
def test_a_good_password_has_no_errors(password: str) -> None:
    assert password_faults(password, "eva") == []


def test_the_shortest_length_is_a_setting() -> None:
    assert [fault.rule for fault in password_faults("long enough", "eva", 12)] == ["min_length"]


def test_a_login_of_two_letters_may_occur_in_a_password() -> None:
    assert password_faults("long enough", "lo") == []
