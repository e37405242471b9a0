"""Servers for our HTTP client: `servers.py LIBRARY PORT FOLDER`. `cargo xtask interop` runs it.

`http.server` speaks HTTP/1.1 and `http.server/1.0` closes each connection; both serve the folder.
`aiohttp` serves the folder, chunks, an echo, and responses that end early.
"""

import sys

library, port, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
CHUNKS = [f"chunk {number}\n".encode() for number in range(100)]


def with_http_server(version):
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Handler(SimpleHTTPRequestHandler):
        protocol_version = version

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        # The default of 5 makes connections hang that come at the same time, whoever the client is.
        request_queue_size = 256

    Server(("127.0.0.1", port), partial(Handler, directory=folder)).serve_forever()


def with_aiohttp():
    from aiohttp import web

    async def chunked(request):
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in CHUNKS:
            await response.write(chunk)
        await response.write_eof()
        return response

    async def echo(request):
        return web.Response(body=await request.read())

    async def cut(request):
        start = {
            "/cut": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome",
            "/cut-chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
            "/reset": b"",
        }
        request.transport.write(start[request.path])
        if request.path == "/reset":
            request.transport.abort()
        else:
            request.transport.close()
        return web.Response()

    app = web.Application(client_max_size=1 << 24)
    app.add_routes([web.get("/chunked", chunked), web.post("/echo", echo)])
    app.add_routes([web.get(page, cut) for page in ("/cut", "/cut-chunked", "/reset")])
    app.add_routes([web.static("/", folder)])
    web.run_app(app, host="127.0.0.1", port=port, print=None)


match library:
    case "http.server":
        with_http_server("HTTP/1.1")
    case "http.server/1.0":
        with_http_server("HTTP/1.0")
    case "aiohttp":
        with_aiohttp()
