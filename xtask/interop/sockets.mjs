// WebSockets through a proxy: `sockets.mjs MODULES PORT PROXY`. `cargo xtask interop` runs it.
//
// Starts an echo server of the package ws at PORT, and connects to it through the proxy at the port
// PROXY: texts, binary messages of several sizes, pings, and closes from both sides.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';

const [modules, port, proxy] = process.argv.slice(2);
const { WebSocket, WebSocketServer } = createRequire(`${modules}/`)('ws');

const server = new WebSocketServer({ port: Number(port), host: '127.0.0.1' });
server.on('connection', (socket) => {
  socket.on('message', (data, isBinary) => {
    if (data.toString() === 'bye') {
      socket.close(4001, 'asked');
    } else {
      socket.send(data, { binary: isBinary });
    }
  });
});
await once(server, 'listening');

async function talk(number) {
  const socket = new WebSocket(`ws://127.0.0.1:${proxy}/echo`);
  await once(socket, 'open');
  for (const size of [0, 1, 125, 126, 65_535, 65_536, 1 << 20]) {
    const sent = Buffer.alloc(size, number);
    socket.send(sent);
    const [got, isBinary] = await once(socket, 'message');
    assert.ok(isBinary && got.equals(sent), `${size} bytes`);
  }
  socket.send(`text ${number}`);
  assert.equal((await once(socket, 'message'))[0].toString(), `text ${number}`);
  socket.ping('are you there');
  assert.equal((await once(socket, 'pong'))[0].toString(), 'are you there');
  if (number % 2 === 0) {
    socket.send('bye');
    assert.deepEqual((await once(socket, 'close'))[0], 4001);
  } else {
    socket.close(1000, 'done');
    assert.deepEqual((await once(socket, 'close'))[0], 1000);
  }
}

await Promise.all(Array.from({ length: 20 }, (_, number) => talk(number)));
console.log('ok');
process.exit(0);
