// Tries an HTTP server with a client library of Node:
// `clients.mjs LIBRARY MODULES ADDRESS all|files direct|behind`.
//
// LIBRARY is undici or autocannon, MODULES the folder with both. `cargo xtask interop` runs this
// against the example `http_interop` of `tidegate-http`, with `all` of its pages, and against
// servers of files. With `behind`, a proxy is between, which has connections of its own.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { Readable } from 'node:stream';

const [library, modules, address, pages, between] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const origin = `http://${address}`;
const large = Buffer.alloc(1 << 20, 'x');
const pieces = Array.from({ length: 1000 }, (_, number) => `piece ${number}\n`);

async function withUndici() {
  const { Client, Pool, fetch, request } = require('undici');
  const client = new Client(origin, { pipelining: 10, bodyTimeout: 10_000, headersTimeout: 10_000 });
  const ask = async (method, path, body, more = {}) => {
    const response = await client.request({ method, path, body, ...more });
    return { status: response.statusCode, headers: response.headers, body: Buffer.from(await response.body.arrayBuffer()) };
  };
  if (pages === 'files') {
    for (let again = 0; again < 3; again += 1) {
      const small = await ask('GET', '/small');
      assert.deepEqual([small.status, small.body.toString()], [200, 'hello\n']);
    }
    const length = (await ask('HEAD', '/large')).headers['content-length'];
    assert.equal(length, String(large.length));
    assert.deepEqual((await ask('GET', '/large')).body, large);
    assert.equal((await ask('GET', '/nothing')).status, 404);
    const many = await Promise.all(Array.from({ length: 100 }, () => ask('GET', '/small')));
    assert.ok(many.every((small) => small.body.toString() === 'hello\n'));
    await client.close();
    return;
  }
  const hello = await ask('GET', '/');
  assert.deepEqual([hello.status, hello.body.toString()], [200, 'hello\n']);
  const head = await ask('HEAD', '/large');
  assert.deepEqual([head.headers['content-length'], head.body.length], [String(large.length), 0]);
  assert.deepEqual((await ask('GET', '/large')).body, large);
  assert.equal((await ask('GET', '/chunked')).body.toString().split('\n').length, 101);
  for (const path of ['/echo', '/stream']) {
    assert.deepEqual((await ask('POST', path, large)).body, large);
    assert.equal((await ask('POST', path, Readable.from(pieces))).body.toString(), pieces.join(''));
  }
  // Ten at a time on one connection, in order.
  const peers = await Promise.all(Array.from({ length: 200 }, () => ask('GET', '/peer')));
  const used = new Set(peers.map((peer) => peer.body.toString())).size;
  assert.ok(used <= (between === 'behind' ? 10 : 1), `${used} connections`);
  await client.close();

  const pool = new Pool(origin, { connections: 8, pipelining: 4 });
  const many = Array.from({ length: 500 }, async () => {
    const { body } = await pool.request({ method: 'GET', path: '/' });
    assert.equal(await body.text(), 'hello\n');
  });
  await Promise.all(many);
  await pool.close();
  assert.equal((await request(`${origin}/nothing`)).statusCode, 404);
  const fetched = await fetch(`${origin}/echo`, { method: 'POST', body: 'fetched' });
  assert.equal(await fetched.text(), 'fetched');
}

async function withAutocannon() {
  const autocannon = require('autocannon');
  for (const pipelining of [1, 8]) {
    const result = await autocannon({ url: origin, connections: 16, pipelining, amount: 8000 });
    assert.deepEqual([result.errors, result.timeouts, result.non2xx], [0, 0, 0]);
    // Of the last requests of a connection it counts only the first response.
    assert.equal(result['2xx'], 8000 - 16 * (pipelining - 1));
  }
}

await { undici: withUndici, autocannon: withAutocannon }[library]();
console.log('ok');
process.exit(0);
