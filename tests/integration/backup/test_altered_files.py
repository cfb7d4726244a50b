"""A file that is not as it was written: nothing of it is taken, and one line says so."""

import base64
import io
import itertools
import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobauto_prefect.backup.archive import _sum_of, write_backup
from jobauto_prefect.backup.restoration import restore_backup
from jobauto_prefect.errors import BackupDamaged, InvalidInput, NotReady
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.opening import open_ledger
from tests.support.backups import (
    PASSPHRASE,
    Entry,
    Installations,
    archive_of,
    entries,
    opened,
    renamed,
    taken,
)
from tests.support.databases import on_sqlite

Made = tuple[bytes, Path, tuple[Any, ...]]

SQLITE = on_sqlite
"""One is enough: a file is a file."""


@pytest.fixture
def made(installations: Installations, tmp_path: Path) -> Made:
    """A real backup, a file to alter, and what is in it."""
    installations.make()
    whole = taken(installations.file)
    assert whole is not None
    return installations.file.read_bytes(), tmp_path / "altered", whole


def test_a_second_member_of_a_name_makes_nobody_an_administrator(
    installations: Installations,
) -> None:
    installations.make()
    with tarfile.open(installations.file, "a") as archive:
        second = tarfile.TarInfo(
            "ledger.db" if installations.ledger.engine.dialect.name == "sqlite" else "ledger.dump"
        )
        content = b"whatever the thief likes"
        second.size = len(content)
        archive.addfile(second, io.BytesIO(content))
    with pytest.raises(BackupDamaged, match="nothing was written"):
        installations.restore()
    assert not installations.empty.home.exists()


def test_what_is_altered_while_it_is_restored_is_not_kept(installations: Installations) -> None:
    installations.make()
    with opened(installations.file) as backup:
        at = backup._places["ledger"] + backup.manifest.databases["ledger"].size - 100
        with installations.file.open("r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))
        with pytest.raises(BackupDamaged, match="was altered"):
            restore_backup(installations.empty, backup, SERVICE)
    assert not installations.empty.key_path.exists()
    with pytest.raises(NotReady):
        open_ledger(installations.empty)


@SQLITE
def test_a_setting_that_cant_be_read_is_told_in_a_line(
    installations: Installations, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("JOBAUTO_CONFIG_DIR", str(tmp_path / "env"))
        (tmp_path / "env").mkdir()
        (tmp_path / "env" / "jobauto.env").write_text("JOBAUTO_LEASE_SECONDS=many\n")
        installations.make()
    with pytest.raises(InvalidInput, match="lease_seconds"):
        installations.restore()
    assert not installations.empty.key_path.exists()


@SQLITE
def test_bytes_cut_doubled_flipped_and_put_in_are_refused(
    made: Made,
) -> None:
    content, path, whole = made
    places = st.one_of(
        st.integers(0, len(content) - 1),
        st.integers(0, 4000),  # headers and manifest
        st.integers(len(content) - 15_000, len(content) - 1),  # the sealed part and the end
    )

    @settings(max_examples=100, deadline=None, suppress_health_check=[*HealthCheck])
    @given(
        places,
        places,
        st.sampled_from(("flip", "cut", "double", "end", "insert", "zero")),
        st.binary(min_size=1, max_size=2000),
    )
    def alter(at: int, to: int, how: str, new: bytes) -> None:
        first, last = sorted((at, to))
        altered = {
            "flip": content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :],
            "cut": content[:first] + content[last:],
            "double": content[:last] + content[first:],
            "end": content[:at],
            "insert": content[:at] + new + content[at:],
            "zero": content + bytes(len(new)),
        }[how]
        path.write_bytes(altered)
        assert taken(path) == (whole if altered == content else None)

    alter()


SHAPES: dict[str, Callable[[list[Entry]], list[Entry]]] = {
    "reversed": lambda all_: all_[::-1],
    "sealed first": lambda all_: [all_[-1], *all_[:-1]],
    "manifest twice": lambda all_: [all_[0], *all_],
    "database twice": lambda all_: [all_[0], all_[1], *all_[1:]],
    "sealed twice": lambda all_: [*all_, all_[-1]],
    "database at the end": lambda all_: [*all_, all_[1]],
    "no database": lambda all_: [all_[0], all_[-1]],
    "no sealed part": lambda all_: all_[:-1],
    "folder": lambda all_: [*all_, (renamed(all_[0], type=tarfile.DIRTYPE, size=0)[0], b"")],
    **{
        f"{kind!r} member {number}": lambda all_, kind=kind, number=number: [  # type: ignore[misc]
            *all_[:number],
            renamed(all_[number], type=kind, linkname="manifest.json"),
            *all_[number + 1 :],
        ]
        for kind in (
            tarfile.LNKTYPE,
            tarfile.SYMTYPE,
            tarfile.FIFOTYPE,
            tarfile.CHRTYPE,
            tarfile.CONTTYPE,
            tarfile.AREGTYPE,
            tarfile.GNUTYPE_SPARSE,
            tarfile.GNUTYPE_LONGNAME,
            tarfile.XHDTYPE,
            tarfile.XGLTYPE,
        )
        for number in range(3)
    },
    **{
        f"named {name} {number}": lambda all_, name=name, number=number: [  # type: ignore[misc]
            *all_[:number],
            renamed(all_[number], name=name),
            *all_[number + 1 :],
        ]
        for name in ("/ledger.db", "./ledger.db", "../ledger.db", "ledger.db/", "x" * 300)
        for number in range(3)
    },
    "mode": lambda all_: [renamed(all_[0], mode=0o4755), *all_[1:]],
    "time": lambda all_: [all_[0], renamed(all_[1], mtime=1), all_[2]],
    "owner": lambda all_: [all_[0], renamed(all_[1], uname="root"), all_[2]],
}


@SQLITE
def test_members_of_another_shape_are_refused(made: Made) -> None:
    content, path, _ = made
    for shape, change in SHAPES.items():
        path.write_bytes(archive_of(change(entries(content))))
        assert taken(path) is None, shape


@SQLITE
def test_the_same_members_in_another_form_or_with_further_headers_are_refused(
    made: Made,
) -> None:
    content, path, whole = made
    members = entries(content)
    path.write_bytes(archive_of(members))
    assert taken(path) == whole
    for headers in ({"path": "ledger.db"}, {"size": "5"}, {"GNU.sparse.realsize": "1" * 30}):
        path.write_bytes(archive_of(members, headers=headers))
        assert taken(path) is None
    nested = tarfile.TarInfo("ledger.db")
    nested.size = len(content)
    path.write_bytes(archive_of([(nested, content)]))
    assert taken(path) is None


@SQLITE
def test_sizes_that_no_file_has_are_refused(made: Made) -> None:
    content, path, _ = made
    for number in (0o77777777777, 2**40, 2**70, -1, -(2**70)):
        for place in (0, content.index(b"ledger.db\0"), content.rindex(b"sealed.json\0")):
            entry = tarfile.TarInfo.frombuf(content[place : place + 512], "utf-8", "strict")
            header = bytearray(entry.tobuf())
            header[124:136] = tarfile.itn(number, 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]
            sums = tarfile.calc_chksums(bytes(header))  # type: ignore[attr-defined]
            header[148:156] = b"%06o\0 " % sums[0]
            path.write_bytes(content[:place] + header + content[place + 512 :])
            assert taken(path) is None


HOSTILE = (
    b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000,
    b'{"n": 1e999, "r": 1, "p": 1}', b'{"format": 1e999}', b'{"format": 1}', b'{"format": "1"}',
    b'{"format": 99999999999999999999999, "jobauto": 5}', b'{"format": 2, "jobauto": "9"}',
    b'"' + b"x" * 10_000, b'{"format": 1, "databases": [1], "jobauto": ""}', b'{"a": "\\ud800"}',
)  # fmt: skip


@SQLITE
def test_texts_that_are_no_json_of_ours_are_refused(made: Made) -> None:
    content, path, _ = made
    for number, text in itertools.product((0, 2), HOSTILE):
        members = entries(content)
        members[number] = renamed((members[number][0], text), size=len(text))
        path.write_bytes(archive_of(members))
        assert taken(path) is None, text[:50]


@SQLITE
def test_a_sealed_part_asks_for_no_other_cipher_memory_or_time(
    made: Made,
) -> None:
    content, path, _ = made
    members = entries(content)
    whole = json.loads(members[2][1])
    whole.pop("sha256")
    long = base64.b64encode(bytes(100_000)).decode()
    for name, values in {
        "n": (0, 1, 3, -(2**16), 2**17, 2**62, 2**200, 65536.0, "65536", None, True, [], {}),
        "r": (0, 7, -8, 2**40, "8"),
        "p": (0, -1, 2**40, 1.5, True),
        "salt": ("", "=", "a", long, 5, None),
        "nonce": ("", "AAAA", "é", long, 5, None),
        "sealed": ("", "AAAA", whole["sealed"][:-8], long, {}),
        "cipher": ("none", "AES-128-GCM"),
        "kdf": ("none", "argon2id"),
        "more": (1,),
    }.items():
        for value in values:
            envelope = {**whole, name: value}
            text = json.dumps({**envelope, "sha256": _sum_of(envelope)}).encode()
            altered = [*members[:2], renamed((members[2][0], text), size=len(text))]
            path.write_bytes(archive_of(altered))
            assert taken(path) is None, (name, value)


@SQLITE
def test_what_somebody_with_the_passphrase_made_by_hand_is_refused_in_a_line(
    made: Made, tmp_path: Path
) -> None:
    _, path, whole = made
    manifest, known, databases = whole
    secrets = {"key": known.key, "files": known.files, "environment": known.environment}

    def write(changes: dict[str, Any], **more: Any) -> tuple[Any, ...] | None:
        database = tmp_path / "content"
        database.write_bytes(databases[0])
        altered = replace(manifest, **changes)
        write_backup(path, altered, {"ledger": database}, {**secrets, **more}, PASSPHRASE)
        return taken(path)

    assert write({}) is not None
    member = manifest.databases["ledger"]
    for changes in (
        {"taken_at": "soon"}, {"taken_at": "2026-01-01T00:00:00"}, {"taken_at": 5},
        {"prefect_taken_at": "9" * 5000}, {"migration": "../1"}, {"migration": None},
        {"is_shared": True}, {"is_shared": "yes"}, {"settings": []}, {"format": 2},
        {"databases": {"ledger": replace(member, tool="pg_dump x")}},
        {"databases": {"ledger": replace(member, kind="mysql")}},
        {"databases": {"ledger": replace(member, kind="postgresql")}},
        {"databases": {"ledger": replace(member, sha256="0" * 64)}},
        {"databases": {"ledger": replace(member, size=member.size - 1)}},
        {"databases": {"ledger": replace(member, size=2**64)}},
        {"databases": {"ledger": replace(member, name="../ledger.db")}},
    ):  # fmt: skip
        assert write(changes) is None, changes
    for more in (
        {"files": {"../../evil": ""}}, {"files": {"jobauto.env": 5}}, {"files": None},
        {"environment": {"PATH": "/tmp"}}, {"environment": {"DB_X\nDB_Y": ""}}, {"key": None},
    ):  # fmt: skip
        assert write({}, **more) is None, more
