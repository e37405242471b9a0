// Opens the page of the gateway in headless Chromium and checks what it shows and does.
//
//   node check.mjs <folder of node_modules> <path of Chromium> <simulated gateway> <folder for pictures> [--long]
//
// Each check is a function with a name; the first one that fails ends the program with status 1.
// `--long` also measures the tasks of the page with 1,000 routes, and its memory over an hour of frames.

import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, chromium, program, pictures, ...rest] = process.argv.slice(2);
const isLong = rest.includes('--long');
const require = createRequire(path.join(path.resolve(modules), 'index.js'));
const puppeteer = require('puppeteer-core');
const LIMIT = 30_000;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Starts a simulated gateway. */
async function start(address, routes) {
  const child = spawn(program, [address, String(routes)], { stdio: ['pipe', 'pipe', 'inherit'] });
  const line = await new Promise((done, fail) => {
    createInterface({ input: child.stdout }).once('line', done);
    child.once('exit', () => fail(new Error('the simulated gateway ended')));
  });
  const url = line.split(' ').pop();
  const end = () => new Promise((done) => { child.once('exit', done); child.stdin.end(); });
  return { url, port: new URL(url).port, end };
}

/** Opens a page and notes its errors, and its requests to other hosts. */
async function open(url, { width = 1440, height = 900, scheme = 'light', allowErrors = false } = {}) {
  const page = await browser.newPage();
  const [errors, foreign] = [[], []];
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => { if (message.type() === 'error' && !allowErrors) errors.push(message.text()); });
  page.on('dialog', (dialog) => { errors.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('request', (request) => {
    const to = new URL(request.url());
    const isOwn = to.origin === new URL(url).origin || ['data:', 'blob:', 'file:'].includes(to.protocol);
    if (!isOwn) foreign.push(request.url());
  });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  await page.setViewport({ width, height });
  await page.goto(url, { waitUntil: 'domcontentloaded', timeout: LIMIT });
  return Object.assign(page, { errors, foreign });
}

/** Waits until a function of the page returns something true. */
async function until(page, what, test, ...args) {
  const end = Date.now() + LIMIT;
  for (;;) {
    const found = await page.evaluate(test, ...args);
    if (found) return found;
    if (Date.now() > end) throw new Error(`${what}: not within ${LIMIT / 1000} s`);
    await pause(100);
  }
}
const isLive = () => document.getElementById('live').dataset.is === 'live' && document.querySelectorAll('.row:not(.hidden)').length > 0;
const click = (page, selector, text) => page.evaluate((selector, text) => {
  const found = [...document.querySelectorAll(selector)].find((one) => !text || one.textContent.trim() === text);
  if (!found) throw new Error(`there is no ${selector} ${text ?? ''}`);
  found.click();
}, selector, text);
const assert = (is, what) => { if (!is) throw new Error(what); };
const view = (page, hash) => page.evaluate((hash) => { location.hash = hash; }, hash);

const checks = {
  async 'loads without errors and without requests to other hosts'({ page, gateway }) {
    await until(page, 'the page is live', isLive);
    for (const hash of ['view=servers', 'view=loops', 'view=log', 'route=slow', '']) {
      await view(page, hash);
      await pause(700);
    }
    const response = await fetch(gateway.url);
    assert(/script-src 'sha256-/.test(response.headers.get('content-security-policy')), 'the policy is missing');
  },

  async 'shows hostile names as text'({ page }) {
    const keys = await page.evaluate(() => model.snapshot.routes.map((route) => route.key));
    const hostile = keys.find((key) => key.startsWith('<img'));
    await view(page, new URLSearchParams({ route: hostile }).toString());
    await until(page, 'the route is open', (key) => document.querySelector('.detail h2')?.textContent === key, hostile);
    await pause(1200);
    const found = await page.evaluate(() => [document.images.length, document.scripts.length, document.querySelectorAll('[onerror]').length]);
    assert(String(found) === '0,1,0', `a name has become markup: ${found}`);
    await view(page, '');
  },

  async 'a breaker that opens turns its band, and the sentence says so'({ page }) {
    await view(page, 'route=flaky');
    await until(page, 'the band is closed', () => document.getElementById('chart-band')?.dataset.state === 'closed');
    await click(page, '.knob button', 'failing');
    await page.waitForSelector('dialog[open]', { timeout: LIMIT });
    await page.type('#ask-token', 'page-token');
    await page.click('#ask-yes');
    await until(page, 'the band is open', () => document.getElementById('chart-band')?.dataset.state === 'open');
    await until(page, 'the sentence says so', () => /refusing .*the breaker is open/.test(document.querySelector('.detail .says').textContent));
    await until(page, 'the log says so', () => model.snapshot.log.some((entry) => entry.what === 'flaky: closed to open'));
  },

  async 'a control names its effect, changes the value, is in the log and can be undone'({ page }) {
    await click(page, '.acts button', 'Force open');
    await page.waitForSelector('dialog[open]', { timeout: LIMIT });
    const effect = await page.$eval('#ask-effect', (one) => one.textContent);
    const undo = await page.$eval('#ask-undo', (one) => one.textContent);
    assert(/All requests of flaky are refused/.test(effect) && /let the breaker decide/.test(undo), `${effect} ${undo}`);
    await page.click('#ask-yes');
    await until(page, 'the breaker is forced', () => document.querySelector('.detail .chip').textContent === 'forced open');
    await until(page, 'the log says so', () => [...document.querySelectorAll('.detail .log li')].some((line) => /admin 127.*breaker of flaky: forced open/.test(line.textContent)));
    await click(page, '#toast button', 'Undo');
    await until(page, 'it decides itself', () => document.querySelector('.detail .chip').textContent !== 'forced open');
    // A setting.
    await page.evaluate(() => { document.getElementById('settings').open = true; });
    await until(page, 'the settings are there', () => document.querySelector('[data-property$=maxConcurrentRequests]'));
    await click(page, '[data-property$="semaphore.maxConcurrentRequests"]');
    await page.waitForSelector('dialog[open]', { timeout: LIMIT });
    await page.$eval('#ask-value', (one) => { one.value = '37'; });
    await page.click('#ask-yes');
    await until(page, 'the limit is 37', () => value(model.byKey.get('flaky'), 'limit') === 37);
    // A wrong value is refused with the reason, and nothing changes.
    await until(page, 'the dialog is closed', () => !document.querySelector('dialog[open]'));
    await click(page, '[data-property$="semaphore.maxConcurrentRequests"]');
    await page.$eval('#ask-value', (one) => { one.value = 'many'; });
    await page.click('#ask-yes');
    await until(page, 'the reason', () => document.getElementById('ask-wrong').textContent.includes('many'));
    await click(page, '#ask-no');
    page.errors.length = 0; // The refusal is an error of the network for the browser.
    await click(page, '.knob button', 'normal');
  },

  async 'a wrong token is refused, and a server is drained'({ gateway }) {
    const page = await open(`${gateway.url}#view=servers`, { allowErrors: true });
    await until(page, 'the servers are there', () => document.querySelectorAll('td button').length === 3);
    await click(page, 'td button', 'Drain');
    await page.waitForSelector('dialog[open]', { timeout: LIMIT });
    await page.type('#ask-token', 'wrong');
    await page.click('#ask-yes');
    await until(page, 'the reason', () => /token is wrong/.test(document.getElementById('ask-wrong').textContent));
    await page.type('#ask-token', 'page-token');
    await page.click('#ask-yes');
    await until(page, 'it is drained', () => document.querySelector('td .chip').textContent === 'drained');
    await page.close();
  },

  async 'the address holds the view'({ gateway }) {
    const page = await open(`${gateway.url}#q=service&sort=name&dir=asc&route=service-0007`);
    await until(page, 'the route is open', () => document.querySelector('.detail h2')?.textContent === 'service-0007');
    const first = await until(page, 'the list is sorted', () => document.querySelector('.row .words b')?.textContent);
    assert(first === 'service-0005', `the first row is ${first}`);
    // By keys alone: search, list, a row, back.
    await page.keyboard.press('Escape');
    await until(page, 'the route is closed', () => !document.querySelector('.detail') && !location.hash.includes('route='));
    await page.keyboard.press('/');
    await page.keyboard.type('-0009');
    await until(page, 'one row', () => location.hash.includes('service-0009') && document.querySelectorAll('.row:not(.hidden)').length === 1);
    await page.evaluate(() => document.querySelector('.scroll').focus());
    await page.keyboard.press('ArrowDown');
    await until(page, 'the row is open', () => document.querySelector('.detail h2')?.textContent === 'service-0009');
    await page.goBack();
    await until(page, 'and closed again', () => !document.querySelector('.detail'));
    assert(page.errors.length === 0, page.errors.join('; '));
    await page.close();
  },

  async 'a saved snapshot opens from a file and shows the same values'({ page, gateway }) {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'tidegate-page-'));
    try {
      const session = await page.createCDPSession();
      await session.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: folder });
      await page.bringToFront();
      await click(page, '#save');
      let file;
      for (const end = Date.now() + LIMIT; !file && Date.now() < end; await pause(100)) {
        file = (await readdir(folder)).find((name) => name.endsWith('.html'));
      }
      assert(file, 'nothing was saved');
      const text = await readFile(path.join(folder, file), 'utf8');
      const data = JSON.parse(text.split('id="saved">')[1].split('</')[0]);
      const saved = await open(`${pathToFileURL(path.join(folder, file))}#route=slow`);
      await until(saved, 'the route is open', () => document.querySelectorAll('.detail .tile').length > 20);
      const shown = await saved.evaluate(() => ({ says: model.byKey.get('slow').says, values: model.byKey.get('slow').values, ticks: model.histories.get('slow').times.length, buttons: document.getElementById('reload').disabled }));
      const own = data.snapshot.routes.find((route) => route.key === 'slow');
      assert(shown.says === own.says && String(shown.values) === String(own.values), 'other values');
      assert(shown.ticks > 0 && shown.buttons, 'there is a history, and nothing can be changed');
      assert(saved.errors.length === 0 && saved.foreign.length === 0, [...saved.errors, ...saved.foreign].join('; '));
      await saved.screenshot({ path: path.join(pictures, 'saved.png') });
      await saved.close();
      // A file of another version, and one that is none: one sentence each.
      const live = await open(gateway.url);
      for (const [name, text, said] of [['old.json', '{"version":99,"snapshot":{}}', /version 99/], ['none.json', 'hello', /no saved snapshot/]]) {
        await writeFile(path.join(folder, name), text);
        await (await live.$('#file')).uploadFile(path.join(folder, name));
        await until(live, said.source, (source) => new RegExp(source).test(document.getElementById('notice').textContent), said.source);
      }
      await live.close();
    } finally {
      await rm(folder, { recursive: true });
    }
  },

  async 'a browser without EventSource is told what to do'({ gateway }) {
    const page = await browser.newPage();
    await page.evaluateOnNewDocument(() => { delete window.EventSource; });
    await page.goto(gateway.url, { waitUntil: 'domcontentloaded' });
    await until(page, 'the sentence', () => /no EventSource.*tidegate top/.test(document.getElementById('notice').textContent));
    await page.close();
  },

  async 'the page reconnects after the gateway restarts'({ page, world }) {
    await page.bringToFront();
    await until(page, 'the page is live', () => document.getElementById('live').dataset.is === 'live');
    const epoch = await page.evaluate(() => model.snapshot.epoch);
    await world.gateway.end();
    await until(page, 'it notices', () => document.getElementById('live').dataset.is === 'waits');
    world.gateway = await start(`127.0.0.1:${world.gateway.port}`, 14);
    await until(page, 'it is live again', (epoch) => document.getElementById('live').dataset.is === 'live' && model.snapshot.epoch !== epoch, epoch);
    page.errors.length = 0; // Refused connections are errors for the browser.
  },

  async 'pictures are made: light and dark, wide and phone'({ gateway }) {
    await fetch(`${gateway.url}api/knobs/flaky/failing`, { method: 'POST', headers: { Authorization: 'Bearer page-token' } });
    await pause(isLong ? 45_000 : 15_000);
    for (const [name, hash, width, height, scheme] of [
      ['wide-light', '', 1280, 760, 'light'], ['wide-dark', 'route=flaky', 1440, 1000, 'dark'], ['route-light', 'route=slow', 1440, 1000, 'light'],
      ['adaptive-light', 'route=adaptive', 1440, 1000, 'light'], ['servers-light', 'view=servers', 1100, 500, 'light'], ['log-dark', 'view=log', 1100, 600, 'dark'],
      ['phone-light', '', 390, 844, 'light'], ['phone-dark', 'route=flaky', 390, 844, 'dark'],
    ]) {
      const page = await open(`${gateway.url}#${hash}`, { width, height, scheme });
      await until(page, 'the page is live', () => document.getElementById('live').dataset.is === 'live');
      await pause(1500);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert(wide <= 0, `${name} is ${wide} pixels too wide`);
      await page.screenshot({ path: path.join(pictures, `${name}.png`) });
      assert(page.errors.length === 0, page.errors.join('; '));
      await page.close();
    }
  },

  async 'a thousand routes stay usable'() {
    const gateway = await start('127.0.0.1:0', 1000);
    try {
      const page = await open(gateway.url);
      await until(page, 'the page is live', isLive);
      const rows = await page.evaluate(() => [document.querySelectorAll('.row').length, model.snapshot.routes.length]);
      assert(rows[0] < 60 && rows[1] === 1000, `${rows[0]} rows exist of ${rows[1]}`);
      await page.evaluate(() => { document.querySelector('.scroll').scrollTop = 20_000; });
      await until(page, 'other rows are shown', () => [...document.querySelectorAll('.row:not(.hidden)')].some((row) => +row.getAttribute('aria-rowindex') > 330));
      if (isLong) await measureTasks(page);
      assert(page.errors.length === 0, page.errors.join('; '));
      await page.close();
    } finally {
      await gateway.end();
    }
    if (isLong) await measureMemory();
  },
};

/** Prints how long the tasks of the page take at two frames a second, and fails above the aim. */
async function measureTasks(page) {
  const runs = [];
  for (let run = 0; run < 3; run++) {
    await page.tracing.start({ categories: ['devtools.timeline', 'toplevel', 'disabled-by-default-devtools.timeline'] });
    await pause(10_000);
    const trace = JSON.parse(Buffer.from(await page.tracing.stop()).toString());
    const main = trace.traceEvents.find((event) => event.name === 'thread_name' && event.args.name === 'CrRendererMain');
    const tasks = trace.traceEvents.filter((event) => event.pid === main.pid && event.tid === main.tid && /RunTask/.test(event.name) && event.dur).map((event) => event.dur / 1000).sort((a, b) => a - b);
    runs.push(tasks[Math.floor(tasks.length * 0.99)] ?? 0);
  }
  const median = runs.sort((a, b) => a - b)[1];
  console.log(`tasks with 1,000 routes: p99 ${median.toFixed(1)} ms (median of ${runs.map((run) => run.toFixed(1)).join(', ')})`);
  assert(median < 50, 'tasks take too long');
}

/** Plays an hour of recorded frames fast, and compares the memory at its quarters. */
async function measureMemory() {
  const gateway = await start('127.0.0.1:0', 1000);
  const page = await open(gateway.url);
  try {
    await until(page, 'the page is live', isLive);
    const session = await page.createCDPSession();
    await session.send('HeapProfiler.enable');
    const heap = [];
    for (let quarter = 0; quarter < 4; quarter++) {
      // 7,200 frames of an hour, each with a tenth of the rows and an entry of the log.
      await page.evaluate(async (quarter) => {
        disconnect();
        const s = model.snapshot;
        for (let at = 0; at < 1800; at++) {
          const rows = [];
          for (let row = at % 10; row < s.routes.length; row += 10) {
            const route = s.routes[row];
            rows.push([row, route.values.map((v) => v == null ? null : v + (at % 3) - 1), route.level, `says ${quarter} ${at}`, null]);
          }
          change({ sample: s.sample + 1, time_ms: s.time_ms + 500, ready: true, rows, loops: s.loops, log: [{ time_ms: s.time_ms, kind: 'change', origin: 'x', what: `entry ${quarter} ${at}`, route: null }], ...(at % 6 ? {} : { bucket: at + 1 }) });
          render();
          if (at % 50 === 0) await new Promise((done) => setTimeout(done));
        }
      }, quarter);
      await session.send('HeapProfiler.collectGarbage');
      heap.push((await page.metrics()).JSHeapUsedSize / 1e6);
    }
    console.log(`memory after each quarter of an hour of frames: ${heap.map((one) => one.toFixed(1)).join(', ')} MB`);
    assert(heap[3] < heap[0] * 1.1 + 1, 'memory grows');
  } finally {
    await page.close();
    await gateway.end();
  }
}

// Connections to hosts that are not ours fail at once: there is no other network.
const browser = await puppeteer.launch({
  executablePath: chromium,
  headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
});
const world = { gateway: await start('127.0.0.1:0', 14) };
let failure;
try {
  const page = await open(world.gateway.url);
  for (const [name, check] of Object.entries(checks)) {
    const begin = Date.now();
    try {
      await check({ page, world, gateway: world.gateway });
      const wrong = [...page.errors, ...page.foreign.map((url) => `a request to ${url}`)];
      if (wrong.length) throw new Error(wrong.join('; '));
      console.log(`ok      ${name} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
    } catch (error) {
      await page.screenshot({ path: path.join(pictures, 'failed.png') }).catch(() => {});
      failure = `FAILED  ${name}: ${error.message}`;
      break;
    }
  }
} finally {
  await browser.close();
  await world.gateway.end();
}
if (failure) {
  console.error(failure);
  process.exit(1);
}
