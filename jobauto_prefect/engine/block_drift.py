"""Blocks of ours that somebody changed or deleted in Prefect: noticed, audited, put back."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobauto_prefect.compiler.blocks import BlockPlan
from jobauto_prefect.engine.credentials import plan_of
from jobauto_prefect.engine.drift import Settled
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.ledger.audit import SERVICE, write_entry
from jobauto_prefect.ledger.credentials import all_credentials, wished_for
from jobauto_prefect.ledger.records import Credential
from jobauto_prefect.ledger.wishes import WishKind, wish

AT_ONCE = 200  # blocks Prefect tells of in one answer

Found = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Held:
    """A block as it should be; `id` is Prefect's."""

    credential_id: int
    id: UUID
    plan: BlockPlan


async def restore_blocks(near: Neighbours) -> list[Settled]:
    """Have every block of ours put back that is not what its record says.

    A block that differs is looked at twice: the record may have changed just now.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    suspects = await _differing(near, None)
    differing = await _differing(near, {one.id for one in suspects}) if suspects else []
    for one in differing:
        await asyncio.to_thread(_restore, near, one.id, one.restored)
    return differing


async def _differing(near: Neighbours, only: set[int] | None) -> list[Settled]:
    held = await asyncio.to_thread(_held, near, only)
    found = await _read(near, [one.id for one in held])
    compared = [
        Settled(
            "credential",
            one.credential_id,
            one.plan.name,
            restored=_members(one.plan, found.get(one.id)),
        )
        for one in held
    ]
    return [one for one in compared if one.restored]


def _held(near: Neighbours, only: set[int] | None) -> list[Held]:
    """The blocks Prefect was told of, but those it is still to be told of."""
    with near.ledger.reading() as session:
        waiting = wished_for(session, WishKind.APPLY_CREDENTIAL)
        return [
            Held(one.id, one.block_document_id, plan_of(one, near.settings))
            for one in all_credentials(session)
            if one.block_document_id is not None and one.id not in waiting
            if only is None or one.id in only
        ]


async def _read(near: Neighbours, ids: list[UUID]) -> dict[UUID, Found]:
    found: dict[UUID, Found] = {}
    for begin in range(0, len(ids), AT_ONCE):
        part = [str(one) for one in ids[begin : begin + AT_ONCE]]
        asked = {"block_documents": {"id": {"any_": part}}, "limit": AT_ONCE}
        for one in await near.prefect.post("/block_documents/filter", asked):
            found[UUID(one["id"])] = one
    return found


def _members(plan: BlockPlan, found: Found | None) -> tuple[str, ...]:
    """What of a block is not as it should be; its values may be anything and are not told."""
    if found is None:
        return ("block",)
    there, here = found["data"], plan.data
    names = sorted({*there, *here})
    changed = [name for name in names if there.get(name) != here.get(name)]
    return (*(["name"] if found["name"] != plan.name else []), *changed)


def _restore(near: Neighbours, credential_id: int, members: tuple[str, ...]) -> None:
    with near.ledger.writing(SERVICE) as session:
        credential = session.get(Credential, credential_id)
        if credential is None or credential.retired_at is not None:
            return
        changes = {"differed in Prefect, restored": [", ".join(members), None]}
        company = credential.company_id
        write_entry(session, "Credential", "update", changes, credential_id, company)
        wish(session, WishKind.APPLY_CREDENTIAL, credential_id)
