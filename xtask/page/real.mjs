// The page of the real program: the demo, and `tidegate run` with a file in front of a server of this check.

import { readFile, writeFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

import { assert, assertClean, click, compose, confirm, isLive, open, pause, photograph, program, run, save, until, view, withFolder } from './browser.mjs';

const TOKEN = 'token-of-this-check';

/** Starts the demo. `url` is the address of its page without the token. */
async function demo() {
  const child = await run(program, [], 'dashboard  http');
  const [url, token] = child.line.split(/\s+/)[1].split('#token=');
  const turn = async (knob, choice) => {
    const response = await fetch(`${url}api/knobs/${knob}/${choice}`, { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
    assert(response.ok, `${knob} ${choice}: ${await response.text()}`);
  };
  return { url, token, turn, end: () => child.end('SIGTERM') };
}

/** A server that works, or fails if it is told to. */
async function upstream() {
  const state = { status: 200 };
  const server = http.createServer((_, response) => { response.statusCode = state.status; response.end('hello\n'); });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { state, at: `127.0.0.1:${server.address().port}`, end: () => { server.closeAllConnections(); server.close(); } };
}

/** Returns a port that is free at the moment. */
async function freePort() {
  const server = http.createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

const settings = (ports, at, limit) => `
[listen]
http = "127.0.0.1:${ports[0]}"
[listen.admin]
at = "127.0.0.1:${ports[1]}"
token = "\${TIDEGATE_TOKEN}"
[log]
success = 0
refused = 0
failed = 0
[reload]
watch = false
[drain]
announce = "0s"
[upstream.shop]
servers = ["${at}"]
[route.shop]
path = "/shop/*"
upstream = "shop"
limit = ${limit}
breaker = { error_rate = 50, volume = 5, window = "2s", sleep = "1s" }
`;

/** Starts `tidegate run FILE`. */
const gateway = (file) => run(program, ['run', file], 'admin listens on', { from: 'stderr', env: { TIDEGATE_TOKEN: TOKEN } });

/** Sends requests until it is ended. */
function load(url) {
  const timer = setInterval(() => { fetch(url).then((response) => response.text()).catch(() => {}); }, 25);
  return () => clearInterval(timer);
}

const shownValue = (page, key, name) => page.evaluate((key, name) => value(model.byKey.get(key), name), key, name);
const band = (state) => [(state) => document.getElementById('chart-band')?.dataset.state === state, state];

export const checks = {
  async 'the demo: its page loads, and the token is not left in the address'({ world }) {
    world.demo = await demo();
    const page = world.page = await open(`${world.demo.url}#token=${world.demo.token}`);
    await until(page, 'the page is live', isLive);
    // A demo on a busy machine may offer them a moment after its listener.
    await until(page, 'the switches are there', () => document.querySelectorAll('.knob').length === 5);
    const shown = await page.evaluate(() => ({ keys: model.snapshot.routes.map((route) => route.key).sort().join(), address: location.href }));
    assert(shown.keys === 'blocking,fast,flaky,slow', JSON.stringify(shown));
    assert(!shown.address.includes(world.demo.token), `the address is ${shown.address}`);
    for (const hash of ['view=servers', 'view=loops', 'view=log', 'route=fast', '']) {
      await view(page, hash);
      await pause(700);
    }
    assertClean(page);
  },

  async 'the demo: a failing upstream opens its breaker, and the sentence says so'({ world: { page } }) {
    await view(page, 'route=flaky');
    await until(page, 'the band is closed', ...band('closed'));
    await page.evaluate(() => { [...document.querySelectorAll('.knob')].find((knob) => knob.textContent.startsWith('/flaky')).querySelector('button:nth-child(3)').click(); });
    await until(page, 'the band is open', ...band('open'));
    await until(page, 'the sentence says so', () => /refusing .*the breaker is open/.test(document.querySelector('.detail .says').textContent));
    await until(page, 'the log says so', () => [...document.querySelectorAll('.detail .log li')].some((line) => /flaky: closed to open/.test(line.textContent)));
    await until(page, 'so does the switch', () => model.snapshot.knobs.find((knob) => knob.name === 'flaky').value === 'failing');
    assertClean(page);
  },

  async 'the demo: bulkheads keep a hanging upstream to itself, and without them all suffer'({ world: { page, demo } }) {
    await demo.turn('flaky', 'normal');
    await demo.turn('slow', 'hanging');
    await view(page, '');
    await until(page, 'the route to it is refused', () => /refusing/.test(model.byKey.get('slow').says));
    await pause(3000);
    const guarded = [await shownValue(page, 'fast', 'rate'), await shownValue(page, 'fast', 'error_percent')];
    await demo.turn('bulkheads', 'off');
    await until(page, 'the fast route gets few requests', (before) => value(model.byKey.get('fast'), 'rate') < before / 4, guarded[0]);
    await demo.turn('slow', 'normal');
    await demo.turn('bulkheads', 'on');
    await until(page, 'it recovers', (before) => value(model.byKey.get('fast'), 'rate') > before * 0.8, guarded[0]);
    console.log(`        fast beside a hanging upstream: ${guarded[0].toFixed(0)} requests/s, ${guarded[1]} % errors`);
    assert(guarded[1] < 5, `the fast route has ${guarded[1]} % errors beside a hanging upstream`);
    assertClean(page);
  },

  async 'the demo: a control changes a value, is in the log and can be undone'({ world: { page } }) {
    await view(page, 'route=slow');
    await until(page, 'the route is open', () => document.getElementById('settings'));
    await page.evaluate(() => { document.getElementById('settings').open = true; });
    await until(page, 'the settings are there', () => document.querySelector('[data-setting$=".limit.max"]'));
    const before = await shownValue(page, 'slow', 'limit');
    await click(page, '[data-setting$=".limit.max"]');
    await confirm(page, { value: '7' });
    await until(page, 'the limit is 7', () => value(model.byKey.get('slow'), 'limit') === 7);
    await until(page, 'the log says so', () => model.snapshot.log.some((entry) => /^admin /.test(entry.origin) && /limit.max/.test(entry.what)));
    await click(page, '#toast button', 'Undo');
    await until(page, 'the limit is as before', (before) => value(model.byKey.get('slow'), 'limit') === before, before);
    assertClean(page);
  },

  async 'the demo: a saved snapshot opens from a file and shows the same values'({ world: { page } }) {
    await withFolder(async (folder) => {
      const file = await save(page, folder);
      const data = JSON.parse((await readFile(file, 'utf8')).split('id="saved">')[1].split('</')[0]);
      const saved = await open(`${pathToFileURL(file)}#route=flaky`);
      await until(saved, 'the route is open', () => document.querySelectorAll('.detail .tile').length > 20);
      const shown = await saved.evaluate(() => JSON.stringify([model.snapshot.routes, model.snapshot.upstreams, model.snapshot.log, model.histories.get('flaky')]));
      const own = JSON.stringify([data.snapshot.routes, data.snapshot.upstreams, data.snapshot.log, data.histories.find((one) => one.key === 'flaky')]);
      assert(shown === own, 'it shows other values');
      const tile = await saved.evaluate(() => [...document.querySelectorAll('.detail .tile')].find((tile) => tile.firstChild.textContent === 'Calls').lastChild.textContent);
      const at = data.snapshot.schema.series.findIndex((series) => series.name === 'calls');
      const calls = data.snapshot.routes.find((route) => route.key === 'flaky').values[at];
      assert(tile === await saved.evaluate((calls) => short(calls), calls), `the tile says ${tile}, and the file ${calls}`);
      assertClean(saved);
      await saved.close();
    });
  },

  async 'the demo: pictures, light and dark, wide and phone; it ends with status 0'({ world: { demo, page } }) {
    await demo.turn('flaky', 'failing');
    await compose(8000);
    await demo.turn('flaky', 'normal');
    await compose(6000);
    await demo.turn('blocking', 'hanging');
    await compose(4000);
    await page.close();
    await photograph(demo.url, [
      ['wide-light', '', 1280, 508, 'light'], ['wide-dark', '', 1280, 508, 'dark'],
      ['route-light', 'route=fast', 1440, 1000, 'light'], ['route-dark', 'route=flaky', 1440, 1000, 'dark'],
      ['slow-light', 'route=slow', 1440, 1600, 'light'],
      ['servers-light', 'view=servers', 1100, 700, 'light'], ['loops-dark', 'view=loops', 1100, 400, 'dark'], ['log-dark', 'view=log', 1100, 700, 'dark'],
      ['phone-light', '', 390, 844, 'light'], ['phone-dark', 'route=flaky', 390, 844, 'dark'],
    ]);
    const status = await demo.end();
    assert(status === 0, `the demo ended with ${status}`);
  },

  async 'tidegate run: breaker, control, reload, and a restart'() {
    const server = await upstream();
    await withFolder(async (folder) => {
      const file = path.join(folder, 'shop.toml');
      const ports = [await freePort(), await freePort()];
      await writeFile(file, settings(ports, server.at, 20));
      let child = await gateway(file);
      const stop = load(`http://127.0.0.1:${ports[0]}/shop/7`);
      const page = await open(`http://127.0.0.1:${ports[1]}/#route=shop`);
      await until(page, 'the page is live', isLive);
      await until(page, 'there are calls', () => value(model.byKey.get('shop'), 'ok') > 0);
      await until(page, 'the band is closed', ...band('closed'));
      assertClean(page);
      server.state.status = 500;
      await until(page, 'the band is open', ...band('open'));
      await until(page, 'the sentence says so', () => /the breaker is open/.test(document.querySelector('.detail .says').textContent));
      server.state.status = 200;
      await until(page, 'the band is closed again', ...band('closed'));
      await click(page, '.acts button', 'Force open');
      await confirm(page, { token: TOKEN });
      await until(page, 'the breaker is forced', () => document.querySelector('.detail .chip').textContent === 'forced open');
      await until(page, 'the log says so', () => model.snapshot.log.some((entry) => /breaker of shop: forced open/.test(entry.what)));
      await click(page, '#toast button', 'Undo');
      await until(page, 'it decides itself', () => document.querySelector('.detail .chip').textContent === 'closed');
      await writeFile(file, settings(ports, server.at, 33));
      await click(page, '#reload');
      await confirm(page);
      await until(page, 'the new limit', () => value(model.byKey.get('shop'), 'limit') === 33);
      assertClean(page);
      const epoch = await page.evaluate(() => model.snapshot.epoch);
      assert(await child.end('SIGTERM') === 0, 'the gateway did not end with status 0');
      await until(page, 'the page notices', () => document.getElementById('live').dataset.is === 'waits');
      child = await gateway(file);
      await until(page, 'it is live again', (epoch) => document.getElementById('live').dataset.is === 'live' && model.snapshot.epoch !== epoch && value(model.byKey.get('shop'), 'ok') > 0, epoch);
      stop();
      await page.close();
      await child.end('SIGTERM');
    });
    server.end();
  },
};
