"""Long lists for Prefect, and what is under way of them at once."""

import asyncio

from starlette.types import Message, Receive, Scope, Send

from jobauto_prefect.facade.gateway.forwarding import PartForwarder

PARTS = [({"part": number}, b"") for number in range(5)]


async def nothing() -> Message:
    """What a client that waits for its answer sends."""
    return await asyncio.Future[Message]()


def test_of_all_lists_one_part_is_under_way_at_once_in_turn() -> None:
    under_way: list[object] = []
    most, order = 0, []

    async def prefect(scope: Scope, _receive: Receive, send: Send) -> None:
        nonlocal most
        under_way.append(scope)
        most = max(most, len(under_way))
        order.append(scope["part"])
        for _ in range(3):
            await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 201})
        under_way.remove(scope)

    answers: list[Message] = []

    async def keep(message: Message) -> None:
        answers.append(message)

    async def forward_lists() -> None:
        forwarder = PartForwarder(prefect)
        await asyncio.gather(*(forwarder.forward(PARTS, nothing, keep) for _ in range(4)))

    asyncio.run(forward_lists())
    assert most == 1
    assert order == [number for number in range(5) for _ in range(4)]
    assert [answer["status"] for answer in answers] == [201] * 4


def test_nothing_more_is_forwarded_for_a_client_that_has_gone() -> None:
    forwarded: list[int] = []

    async def forward_list() -> None:
        goes = asyncio.Event()

        async def receive() -> Message:
            await goes.wait()
            return {"type": "http.disconnect"}

        async def prefect(scope: Scope, inner_receive: Receive, send: Send) -> None:
            forwarded.append(scope["part"])
            assert (await inner_receive())["type"] == "http.request"
            if scope["part"] == 1:
                goes.set()
                assert (await inner_receive())["type"] == "http.disconnect"
            await send({"type": "http.response.start", "status": 201})

        async def refuse(_message: Message) -> None:
            raise AssertionError("nobody is there")

        await PartForwarder(prefect).forward(PARTS, receive, refuse)

    asyncio.run(forward_list())
    assert forwarded == [0, 1]
