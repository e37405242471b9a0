// Three upstreams of a gateway, and requests to them: `traffic.mjs UPSTREAM GATEWAY`, two ports.
//
// `prices` responds, `stock` fails, `reviews` never responds. Sends a request to each route every
// 20 ms, until it is ended. `cargo xtask dashboard` runs it.

import { Agent, createServer, get } from 'node:http';

const [upstream, gateway] = process.argv.slice(2).map(Number);
const pages = {
  '/prices': (response) => response.end('17'),
  '/stock': (response) => response.writeHead(500).end(),
  '/reviews': () => {},
};
createServer((request, response) => (pages[request.url] ?? pages['/stock'])(response)).listen(upstream, '127.0.0.1');

const agent = new Agent({ keepAlive: true, maxSockets: 64 });
setInterval(() => {
  for (const path of Object.keys(pages)) {
    const sent = get({ host: '127.0.0.1', port: gateway, path, agent }, (response) => response.resume());
    // The gateway may not listen yet.
    sent.on('error', () => {});
  }
}, 20);
