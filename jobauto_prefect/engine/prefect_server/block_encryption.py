"""Blocks that Prefect encrypted with its own key, before it was given ours.

Prefect keeps that key beside the blocks, in its own database; with another key in
`PREFECT_SERVER_ENCRYPTION_KEY` it can't read them any more.
"""

import logging
from typing import Any

from cryptography.fernet import Fernet, InvalidToken

logger = logging.getLogger(__name__)

OWN_KEY = "ENCRYPTION_KEY"
"""Name of the key in Prefect's configuration table."""


async def reencrypt_blocks(key: str) -> int:
    """Re-encrypt with `key` what Prefect's own key encrypted, and delete that; return how many.

    All in one transaction. A block that neither key decrypts stays as it is, and so does Prefect's
    key.
    """
    from prefect.server.database import provide_database_interface

    database: Any = provide_database_interface()
    engine = await database.engine()
    try:
        async with engine.connect() as connection:
            if not await connection.run_sync(_has_tables):
                return 0  # Prefect has not created a key yet
        async with database.session_context(begin_transaction=True) as session:
            return await _take_over(database, session, Fernet(key.encode()))
    finally:
        await engine.dispose()  # bound to this event loop; the server has another


def _has_tables(connection: Any) -> bool:
    names = ("configuration", "block_document")
    return all(connection.dialect.has_table(connection, name) for name in names)


async def _take_over(database: Any, session: Any, ours: Fernet) -> int:
    from prefect.server import models

    configuration: Any = models.configuration  # its decorator hides return types
    own = await configuration.read_configuration(session=session, key=OWN_KEY)
    if own is None:
        return 0
    theirs = Fernet(own.value["fernet_key"].encode())
    table = database.BlockDocument.__table__
    taken, left = 0, 0
    for row in (await session.execute(table.select())).all():
        if _opened(ours, row.data) is not None:
            continue
        content = _opened(theirs, row.data)
        if content is None:
            left += 1
            continue
        changed = {"data": ours.encrypt(content).decode()}
        await session.execute(table.update().where(table.c.id == row.id).values(changed))
        taken += 1
    if left:
        logger.warning("%d blocks in Prefect can't be read with any known key", left)
    else:
        await configuration.delete_configuration(session=session, key=OWN_KEY)
    return taken


def _opened(fernet: Fernet, data: Any) -> bytes | None:
    try:
        return fernet.decrypt(data)
    except (InvalidToken, TypeError):
        return None
