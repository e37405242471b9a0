// Opens the original Hystrix dashboard in headless Chromium and checks what it shows of a stream.
//
//   node check.mjs <folder of node_modules> <path of Chromium> <address of the stream> <picture> <pools>
//
// Serves the dashboard's page on the loopback interface, with the proxy that the page expects. The
// page loads one script from elsewhere, `underscore`; it is answered from the package. Every other
// request to another host is refused. Prints what the page shows and writes a picture of it.

import { createRequire } from 'node:module';
import { createServer, get } from 'node:http';
import { readFile } from 'node:fs/promises';
import path from 'node:path';

const [modules, chromium, stream, picture, poolCount] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(modules), 'index.js'));
const puppeteer = require('puppeteer-core');
const webapp = path.join(modules, 'hystrix-dashboard', 'webapp');
const underscore = path.join(modules, 'underscore', 'underscore-umd-min.js');
const LIMIT = 30_000;

const types = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript', '.png': 'image/png' };

const server = createServer(async (request, response) => {
  const url = new URL(request.url, 'http://127.0.0.1');
  if (url.pathname === '/proxy.stream') {
    const upstream = get(url.searchParams.get('origin'), (from) => {
      response.writeHead(from.statusCode, { 'content-type': from.headers['content-type'] });
      from.pipe(response);
    });
    upstream.on('error', () => response.destroy());
    response.on('close', () => upstream.destroy());
    return;
  }
  try {
    const file = path.join(webapp, path.normalize(url.pathname));
    const content = await readFile(file);
    response.writeHead(200, { 'content-type': types[path.extname(file)] ?? 'application/octet-stream' });
    response.end(content);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const origin = `http://127.0.0.1:${server.address().port}`;

const browser = await puppeteer.launch({
  executablePath: chromium,
  headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
});
let failure;
try {
  const page = await browser.newPage();
  await page.setViewport({ width: 1200, height: 700 });
  const errors = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  await page.setRequestInterception(true);
  page.on('request', async (request) => {
    const url = request.url();
    if (url.includes('underscore')) {
      await request.respond({ contentType: 'text/javascript', body: await readFile(underscore, 'utf8') });
    } else if (url.startsWith(origin) || url.startsWith('data:')) {
      await request.continue();
    } else {
      await request.abort();
    }
  });
  const query = new URLSearchParams({ stream, title: 'tidegate' });
  await page.goto(`${origin}/monitor/monitor.html?${query}`, { waitUntil: 'domcontentloaded', timeout: LIMIT });

  // Until the page shows each kind of state: a fast command, an open breaker, timeouts, pools.
  const read = () => {
    const text = (of, selector) => of.querySelector(selector)?.textContent.trim() ?? '';
    const commands = [...document.querySelectorAll('.dependencies .monitor')].map((circuit) => ({
      name: text(circuit, '.name'),
      success: text(circuit, '.success'),
      shortCircuited: text(circuit, '.shortCircuited'),
      timeout: text(circuit, '.timeout'),
      rejected: text(circuit, '.rejected'),
      failure: text(circuit, '.failure'),
      errors: text(circuit, '.errorPercentage'),
      circuit: text(circuit, '.circuitStatus'),
    }));
    const pools = [...document.querySelectorAll('.dependencyThreadPools .monitor')].map((pool) => text(pool, '.name'));
    return { commands, pools };
  };
  const complete = ({ commands, pools }) => {
    const find = (name) => commands.find((command) => command.name === name);
    const number = (text) => Number((text ?? '0').replaceAll(',', ''));
    return commands.length === 3
      && number(find('prices')?.success) > 0 && /Closed/.test(find('prices').circuit)
      && number(find('stock')?.shortCircuited) > 0 && /Open/.test(find('stock').circuit)
      && number(find('reviews')?.timeout) > 0
      && pools.length === Number(poolCount);
  };
  const end = Date.now() + LIMIT;
  let shown = await page.evaluate(read);
  while (!complete(shown) && Date.now() < end) {
    await new Promise((done) => setTimeout(done, 250));
    shown = await page.evaluate(read);
  }
  await page.screenshot({ path: picture });
  console.table(shown.commands);
  console.log(`pools: ${shown.pools.join(', ')}`);
  if (!complete(shown)) failure = 'the page does not show what the stream says';
  if (errors.length > 0) failure = `the page reports errors: ${errors.join('; ')}`;
} finally {
  await browser.close();
  server.closeAllConnections();
  server.close();
}
if (failure) {
  console.error(failure);
  process.exit(1);
}
