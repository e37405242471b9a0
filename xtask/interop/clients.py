"""Tries an HTTP server with a client library of Python: `clients.py LIBRARY ADDRESS all|files`.

LIBRARY is requests, httpx or aiohttp. `cargo xtask interop` runs this against the example
`http_interop` of `tidegate-http`, with `all` of its pages, and against servers of files.
"""

import sys

LARGE = b"x" * (1 << 20)
PIECES = [b"piece %d\n" % number for number in range(1000)]
CHUNKED = b"".join(b"chunk %d\n" % number for number in range(100))


def check(got, expected, what):
    if got != expected:
        sys.exit(f"{what}: got {str(got)[:200]}, expected {str(expected)[:200]}")


def files(client):
    """requests and httpx, with a server of files."""
    for _ in range(3):
        response = client.get("/small")
        check((response.status_code, response.content), (200, b"hello\n"), "GET")
    check(client.head("/large").headers["content-length"], str(len(LARGE)), "HEAD")
    check(client.get("/large").content, LARGE, "a large body")
    check(client.get("/nothing").status_code, 404, "a page that is not there")


def in_turn(client, content, chunked_upload):
    """requests and httpx, whose names differ little."""
    if PAGES == "files":
        return files(client)
    for _ in range(3):
        response = client.get("/")
        check((response.status_code, response.content), (200, b"hello\n"), "GET")
    response = client.head("/large")
    check((response.headers["content-length"], response.content), (str(len(LARGE)), b""), "HEAD")
    check(client.get("/large").content, LARGE, "a large body")
    check(client.get("/chunked").content, CHUNKED, "chunks")
    check(client.get("/nothing").status_code, 404, "a page that is not there")
    for path in ["/echo", "/stream"]:
        check(content(client.post(path, data=LARGE)), LARGE, f"POST {path}")
        check(content(chunked_upload(path)), b"".join(PIECES), f"chunked POST {path}")
    peers = {client.get("/peer").text for _ in range(50)}
    check(len(peers), 1, "connections for 50 requests")


def with_requests(address):
    import requests

    class Client(requests.Session):
        def request(self, method, path, **named):
            return super().request(method, f"http://{address}{path}", timeout=30, **named)

    with Client() as client:
        client.trust_env = False
        in_turn(client, lambda response: response.content, lambda path: client.post(path, data=iter(PIECES)))


def with_httpx(address):
    import httpx

    class Client(httpx.Client):
        def post(self, path, data):
            return super().post(path, content=data)

    with Client(base_url=f"http://{address}", timeout=30, trust_env=False) as client:
        in_turn(client, lambda response: response.content, lambda path: client.post(path, data=iter(PIECES)))


def with_aiohttp(address):
    import asyncio
    import aiohttp

    async def pieces():
        for piece in PIECES:
            yield piece

    async def run():
        limit = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(f"http://{address}", timeout=limit) as client:
            async def ask(method, path, **named):
                async with client.request(method, path, **named) as response:
                    return response.status, await response.read(), response.headers

            if PAGES == "files":
                for _ in range(3):
                    check((await ask("GET", "/small"))[:2], (200, b"hello\n"), "GET")
                headers = (await ask("HEAD", "/large"))[2]
                check(headers["Content-Length"], str(len(LARGE)), "HEAD")
                check((await ask("GET", "/large"))[1], LARGE, "a large body")
                check((await ask("GET", "/nothing"))[0], 404, "a page that is not there")
                many = await asyncio.gather(*(ask("GET", "/small") for _ in range(100)))
                check({body for _, body, _ in many}, {b"hello\n"}, "100 requests at once")
                return

            status, body, _ = await ask("GET", "/")
            check((status, body), (200, b"hello\n"), "GET")
            _, body, headers = await ask("HEAD", "/large")
            check((headers["Content-Length"], body), (str(len(LARGE)), b""), "HEAD")
            check((await ask("GET", "/large"))[1], LARGE, "a large body")
            check((await ask("GET", "/chunked"))[1], CHUNKED, "chunks")
            for path in ["/echo", "/stream"]:
                check((await ask("POST", path, data=LARGE))[1], LARGE, f"POST {path}")
                check((await ask("POST", path, data=pieces()))[1], b"".join(PIECES), f"chunked POST {path}")
                body = (await ask("POST", path, data=LARGE, expect100=True))[1]
                check(body, LARGE, f"POST {path} after 100 Continue")
            in_turn = {(await ask("GET", "/peer"))[1] for _ in range(50)}
            check(len(in_turn), 1, "connections for 50 requests")
            all_at_once = await asyncio.gather(*(ask("GET", "/peer") for _ in range(200)))
            check({status for status, _, _ in all_at_once}, {200}, "200 requests at once")

    asyncio.run(run())


PAGES = sys.argv[3]
LIBRARIES = {"requests": with_requests, "httpx": with_httpx, "aiohttp": with_aiohttp}
if __name__ == "__main__":
    LIBRARIES[sys.argv[1]](sys.argv[2])
    print("ok")
