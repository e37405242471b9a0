"""Compares our decoder of requests with h11, for generated requests: `compare_h11.py PROGRAM COUNT SEED`.

PROGRAM is the example `decode`. A request that ours accepts must say the same to h11. A request that
only h11 accepts is fine: ours is the stricter one. `cargo xtask interop` runs this.
"""

import random
import struct
import subprocess
import sys

try:
    import h11
except ImportError:
    print("skipped: the Python package h11 is not installed")
    sys.exit(0)

LINES = [
    b"GET / HTTP/1.1\r\n", b"POST /a?b=c HTTP/1.1\r\n", b"PUT /x HTTP/1.0\r\n", b"OPTIONS * HTTP/1.1\r\n",
    b"CONNECT a:443 HTTP/1.1\r\n", b"GET http://a/ HTTP/1.1\r\n", b"M-X /%20 HTTP/1.1\r\n",
]
FIELDS = [
    b"Host: a\r\n", b"host:a:80\r\n", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n", b"transfer-encoding:Chunked\r\n", b"Connection: close\r\n",
    b"Connection: keep-alive, x\r\n", b"Expect: 100-continue\r\n", b"X-Empty:\r\n", b"X-Tab:\ta \t b\t\r\n",
    b"X-High: \xe4\xff\r\n", b"Upgrade: x\r\n", b"TE: trailers\r\n", b"Cookie: a=b; c=d\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n", b"Content-Length: 5, 5\r\n", b" folded\r\n", b"Bad Name: x\r\n",
]
BODIES = [
    b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", b"00\r\nT: 1\r\nu:2\r\n\r\n",
    b"5;a=\"b\"\r\nhello\r\n0;z\r\n\r\n", b"", b"0\r\n\r\n", b"A\r\n0123456789\r\n0\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n", b"5\nhello\r\n0\r\n\r\n",
]


def generate(rng):
    message = rng.choice(LINES)
    fields = [rng.choice(FIELDS) for _ in range(rng.randrange(4))]
    if rng.random() < 0.9:
        fields.insert(rng.randrange(len(fields) + 1), FIELDS[0])
    message += b"".join(fields) + b"\r\n" + rng.choice(BODIES)
    message = bytearray(message)
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        at = rng.randrange(len(message))
        action = rng.randrange(3)
        byte = rng.choice(b"\r\n\t :;,\0\x0b\x7f\x80\xff01aZ+-_/\"")
        if action == 0:
            message[at] = byte
        elif action == 1:
            message.insert(at, byte)
        else:
            del message[at]
    return bytes(message)


def pair(name, value):
    """h11 writes the coding in small letters."""
    name = name.lower()
    return (name, value.lower() if name == b"transfer-encoding" else value)


def ours(program, messages):
    data = b"".join(struct.pack(">I", len(message)) + message for message in messages)
    output = subprocess.run([program], input=data, stdout=subprocess.PIPE, check=True).stdout
    text = lambda word: b"" if word == "-" else bytes.fromhex(word)
    result, lines = [], []
    for line in output.decode().splitlines():
        if line != ".":
            lines.append(line.split(" "))
            continue
        body = [words for words in lines if words[0] == "body"]
        if body:
            head = next(words for words in lines if words[0] == "head")
            pairs = lambda kind: [pair(text(w[1]), text(w[2])) for w in lines if w[0] == kind]
            start = (text(head[1]), text(head[2]), head[3].removeprefix("HTTP/").encode())
            result.append((start, pairs("field"), text(body[0][1]), pairs("trailer")))
        else:
            result.append(None)
        lines = []
    return result


def theirs(message):
    connection = h11.Connection(h11.SERVER)
    start, fields, body = None, [], b""
    try:
        connection.receive_data(message)
        while True:
            event = connection.next_event()
            if event in (h11.NEED_DATA, h11.PAUSED):
                return "incomplete"
            if isinstance(event, h11.Request):
                start = (event.method, event.target, event.http_version)
                fields = [(name.lower(), value) for name, value in event.headers.raw_items()]
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                trailers = [(name.lower(), value) for name, value in event.headers.raw_items()]
                return (start, fields, body, trailers)
    except h11.RemoteProtocolError as error:
        return f"refused: {error}"


def main():
    program, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    messages = [generate(rng) for _ in range(count)]
    accepted = stricter = 0
    for message, own in zip(messages, ours(program, messages)):
        other = theirs(message)
        if own is None:
            stricter += isinstance(other, tuple)
            continue
        accepted += 1
        if own != other:
            print(f"seed {seed}: ours accepts {message!r}\nours {own}\nh11  {other}")
            sys.exit(1)
    print(f"{count} requests: {accepted} are the same to both, {stricter} only h11 accepts")


main()
