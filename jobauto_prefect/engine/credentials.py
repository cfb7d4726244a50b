"""Carrying out wishes about credential types and credentials."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from jobauto_prefect.compiler.blocks import (
    BlockPlan,
    BlockTypePlan,
    TypeFacts,
    block_plan,
    block_type_plan,
)
from jobauto_prefect.engine.blocks import (
    apply_block,
    apply_block_type,
    retire_block,
    retire_block_type,
)
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.errors import Conflict, NotFound
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.credentials import credentials_of_type
from jobauto_prefect.ledger.records import Credential, CredentialType, Wish
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.settings import Settings

T = TypeVar("T")

TRIES = 5
TRY_AGAIN_SECONDS = 0.1

TypeRead = tuple[BlockTypePlan, UUID | None]
"""The plan, and the block type as the ledger remembers it."""


async def apply_credential_type(near: Neighbours, asked: Wish) -> None:
    """The block type of a credential type as its record says."""
    read = await asyncio.to_thread(_read_type, near, asked.subject_id)
    if read is not None:
        await _insist(lambda: _apply_type(near, asked.subject_id, read))


async def _insist(work: Callable[[], Awaitable[T]]) -> T:
    """A type and its credentials are applied side by side: what the one makes the other finds.

    Raises:
        Conflict, NotFound: it is so after some tries.
    """
    for _ in range(TRIES):
        try:
            return await work()
        except (Conflict, NotFound):
            await asyncio.sleep(TRY_AGAIN_SECONDS)
    return await work()


async def _apply_type(near: Neighbours, type_id: int, read: TypeRead) -> tuple[UUID, UUID]:
    plan, known = read
    of_type = await apply_block_type(near.prefect, plan, known)
    if of_type[0] != known:
        await asyncio.to_thread(_remember_type, near, type_id, of_type[0])
    return of_type


def _read_type(near: Neighbours, type_id: int) -> TypeRead | None:
    with near.ledger.reading() as session:
        kind = session.get(CredentialType, type_id)
        if kind is None or kind.retired_at is not None:
            return None
        return type_plan_of(kind, near.settings), kind.block_type_id


def type_plan_of(kind: CredentialType, settings: Settings) -> BlockTypePlan:
    """What Prefect shall hold of a credential type."""
    return block_type_plan(
        TypeFacts(
            type_id=kind.id,
            code=kind.code,
            name=kind.translations.get("name", kind.name),
            description=kind.translations.get("description", kind.description),
            logo=kind.logo,
            homepage=kind.homepage or kind.url,
            fields=kind.fields,
            language=settings.language,
        )
    )


def _remember_type(near: Neighbours, type_id: int, block_type_id: UUID) -> None:
    """Under another block type there is no document yet."""
    with near.ledger.writing(SERVICE) as session:
        kind = session.get_one(CredentialType, type_id)
        kind.block_type_id = block_type_id
        if kind.retired_at is not None:  # meanwhile
            wish(session, WishKind.RETIRE_BLOCK_TYPE, type_id, {"id": str(block_type_id)})
            return
        for credential in credentials_of_type(session, type_id):
            wish(session, WishKind.APPLY_CREDENTIAL, credential.id)


async def apply_credential(near: Neighbours, asked: Wish) -> None:
    """The block document of a credential as its record says, and the block type it needs."""
    read = await asyncio.to_thread(_read_credential, near, asked.subject_id)
    if read is None:
        return
    type_id, plan, known = read
    type_read = await asyncio.to_thread(_read_type, near, type_id)
    if type_read is None:
        return

    async def work() -> UUID:
        of_type = await _apply_type(near, type_id, type_read)
        return await apply_block(near.prefect, plan, of_type, known)

    document_id = await _insist(work)
    if document_id != known:
        await asyncio.to_thread(_remember, near, asked.subject_id, document_id)


def _read_credential(
    near: Neighbours, credential_id: int
) -> tuple[int, BlockPlan, UUID | None] | None:
    with near.ledger.reading() as session:
        credential = session.get(Credential, credential_id)
        if credential is None or credential.retired_at is not None:
            return None
        plan = plan_of(credential, near.settings)
        return credential.credential_type_id, plan, credential.block_document_id


def plan_of(credential: Credential, settings: Settings) -> BlockPlan:
    """What Prefect shall hold of a credential."""
    return block_plan(
        credential.id,
        credential.company.slug,
        credential.name,
        credential.credential_type.fields,
        credential.values,
        f"{settings.url}/api/v1/credential/{credential.id}.html",
    )


def _remember(near: Neighbours, credential_id: int, document_id: UUID) -> None:
    with near.ledger.writing(SERVICE) as session:
        credential = session.get_one(Credential, credential_id)
        credential.block_document_id = document_id
        if credential.retired_at is not None:  # meanwhile
            wish(session, WishKind.RETIRE_BLOCK, credential_id, {"id": str(document_id)})


async def retire_type(near: Neighbours, asked: Wish) -> None:
    """The block type of a deleted credential type goes."""
    await retire_block_type(near.prefect, UUID(asked.payload["id"]))


async def retire_credential(near: Neighbours, asked: Wish) -> None:
    """The block of a deleted credential goes."""
    await retire_block(near.prefect, UUID(asked.payload["id"]))
