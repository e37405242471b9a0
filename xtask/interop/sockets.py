"""WebSockets through a proxy: `sockets.py PORT PROXY`. `cargo xtask interop` runs it.

Starts an echo server of the package websockets at PORT, and connects to it through the proxy at the
port PROXY: texts, binary messages of several sizes, pings, and closes from both sides.
"""

import asyncio
import sys

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed


async def echo(socket):
    async for message in socket:
        if message == "bye":
            await socket.close(4001, "asked")
            return
        await socket.send(message)


async def talk(proxy, number):
    async with connect(f"ws://127.0.0.1:{proxy}/echo", max_size=None, proxy=None) as socket:
        for size in [0, 1, 125, 126, 65_535, 65_536, 1 << 20]:
            sent = bytes([number]) * size
            await socket.send(sent)
            assert await socket.recv() == sent, size
        await socket.send(f"text {number}")
        assert await socket.recv() == f"text {number}"
        await (await socket.ping("are you there"))
        if number % 2 == 0:
            await socket.send("bye")
            try:
                await socket.recv()
                sys.exit("the server did not close")
            except ConnectionClosed as closed:
                assert closed.rcvd.code == 4001, closed


async def main(port, proxy):
    async with serve(echo, "127.0.0.1", port, max_size=None):
        await asyncio.gather(*(talk(proxy, number) for number in range(20)))


asyncio.run(asyncio.wait_for(main(int(sys.argv[1]), int(sys.argv[2])), 15))
print("ok")
