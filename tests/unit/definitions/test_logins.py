"""Which logins new users may have."""
# ruff: noqa: RUF001 - the letters that look alike are what this is about

import pytest

from jobauto_prefect.definitions.records.logins import ACTORS, SCRIPTS, login_faults


@pytest.mark.parametrize(
    "login",
    ["eva", "Eva_2", "eva.nova+x@example.org", "o'neil", "jiří", "Ødegård", "straße", "иван",
     "αλέκα", "山田太郎", "やまだ太郎", "ユーザー", "김철수", "علي", "דוד", "जॉन", "தமிழ்",
     "worker2", "my-service", "7"],
)  # fmt: skip
def test_a_login_is_written_in_one_script(login: str) -> None:
    assert list(login_faults(login)) == []


@pytest.mark.parametrize(
    "character",
    [
        *"\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u180e\u115f\u1160\u17b4\ufe0f\U000e0061",
        *"\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
        *"\u0000\u001f\u007f\u0085\u00a0\u2003\u3000\u2028\ud800\ue000\u0378",
        *"\u02bc\u02bb\u2018\u2019\uff07\u2010\u2011\u2212\u2024\u2044\u2215\u3002\u2665",
    ],
    ids=lambda character: f"U+{ord(character):04X}",
)
def test_what_nobody_sees_or_that_looks_like_a_sign_is_refused(character: str) -> None:
    for login in (f"eva{character}", f"{character}eva", f"e{character}va"):
        assert list(login_faults(login)) != []


@pytest.mark.parametrize(
    "login",
    ["аdmin", "rооt", "evа", "раураl", "αdmin", "rοot", "еva1", "һarry", "ո2n", "ꭰave",
     "иvan", "evaの", "ｅva", "ℯva", "𝐞va", "ﬁn", "eva²", "ⅰvan", "e\u0301va", "a\u0338b"],
)  # fmt: skip
def test_letters_that_look_alike_are_refused(login: str) -> None:
    (fault,) = login_faults(login)
    assert fault.startswith(("use the letters of one script", "write each letter"))


@pytest.mark.parametrize(
    "login",
    [
        *sorted(ACTORS),
        "Service",
        "WORKER",
        "Unknown",
        "servıce",
        "sérvice",
        "wòrker",
        "prefeçt",
        "ŚERVICE",
    ],
)
def test_who_is_no_user_in_the_trail_is_refused(login: str) -> None:
    (fault,) = login_faults(login)
    assert fault.startswith("choose another one")


def test_no_two_scripts_go_together_but_those_of_one_language() -> None:
    letters = {
        "Latin": "e",
        "Greek": "λ",
        "Cyrillic": "ж",
        "Hebrew": "ד",
        "Arabic": "ع",
        "Thai": "ก",
    }
    assert letters.keys() <= set(SCRIPTS)
    for one in letters.values():
        for other in letters.values():
            assert bool(list(login_faults(one + other))) is (one != other)
