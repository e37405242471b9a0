// What the checks share: the browser, pages that note their errors, programs, and waiting.

import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';

const [modules, chromium, simulated, program, pictures, ...rest] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(modules), 'index.js'));
const puppeteer = require('puppeteer-core');

export { program, pictures };
export const isLong = rest.includes('--long');
const isShort = rest.includes('--short');
export const LIMIT = 60_000;
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));
export const assert = (is, what) => { if (!is) throw new Error(what); };

// Connections to hosts that are not ours fail at once: there is no other network.
export const browser = await puppeteer.launch({
  executablePath: chromium,
  headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
});

const children = new Set();

/** Starts a program, and waits for the first line that has the text. `from` is where it prints the line. */
export async function run(file, args, text, { from = 'stdout', env = {} } = {}) {
  const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, ...env } });
  children.add(child);
  const ended = new Promise((done) => child.once('exit', (code, signal) => { children.delete(child); done(code ?? signal); }));
  const said = [];
  const line = await new Promise((done, fail) => {
    for (const output of ['stdout', 'stderr']) {
      // Lines are read to the end, so that the program never waits for its reader.
      createInterface({ input: child[output] }).on('line', (line) => {
        if (said.length < 50) said.push(line);
        if (output === from && line.includes(text)) done(line);
      });
    }
    child.once('error', fail);
    ended.then((status) => fail(new Error(`${path.basename(file)} ended with ${status}: ${said.join(' | ')}`)));
  });
  return {
    line,
    /** Ends the program, and returns its status. */
    end(signal) { if (signal) child.kill(signal); else child.stdin.end(); return ended; },
  };
}

/** Ends the browser, and what a failed check has left. */
export async function finish() {
  await browser.close();
  for (const child of children) child.kill('SIGKILL');
}

/** Starts a simulated gateway, whose time stands still if `steps` says so. */
export async function simulate(address, routes, ...steps) {
  const child = await run(simulated, [address, String(routes), ...steps], 'page http');
  const url = child.line.split(' ').pop();
  return { url, port: new URL(url).port, end: () => child.end() };
}

/** Calls a function with a folder that exists until it has ended. */
export async function withFolder(act) {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'tidegate-page-'));
  try {
    return await act(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Opens a page and notes its errors, and its requests to other hosts. */
export async function open(url, { width = 1440, height = 900, scheme = 'light', motion = 'no-preference', allowErrors = false } = {}) {
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
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: motion }]);
  await page.setViewport({ width, height });
  await page.goto(url, { waitUntil: 'domcontentloaded', timeout: LIMIT });
  return Object.assign(page, { errors, foreign });
}

/** Fails if a page has reported an error, or has asked another host for something. */
export function assertClean(page) {
  const wrong = [...page.errors, ...page.foreign.map((url) => `a request to ${url}`)];
  assert(wrong.length === 0, wrong.join('; '));
}

/** Waits until a function of the page returns something true. */
export async function until(page, what, test, ...args) {
  const end = Date.now() + LIMIT;
  for (;;) {
    const found = await page.evaluate(test, ...args);
    if (found) return found;
    if (Date.now() > end) throw new Error(`${what}: not within ${LIMIT / 1000} s`);
    await pause(100);
  }
}
export const isLive = () => document.getElementById('live').dataset.is === 'live' && document.querySelectorAll('.row:not(.hidden)').length > 0;
export const click = (page, selector, text) => page.evaluate((selector, text) => {
  const found = [...document.querySelectorAll(selector)].find((one) => !text || one.textContent.trim() === text);
  if (!found) throw new Error(`there is no ${selector} ${text ?? ''}`);
  found.click();
}, selector, text);
export const view = (page, hash) => page.evaluate((hash) => { location.hash = hash; }, hash);

/** Answers the dialog that is open: with a token, and a value. */
export async function confirm(page, { token, value } = {}) {
  await page.waitForSelector('dialog[open]', { timeout: LIMIT });
  if (value !== undefined) await page.$eval('#ask-value', (one, value) => { one.value = value; }, value);
  if (token !== undefined) await page.type('#ask-token', token);
  await page.click('#ask-yes');
}

/** Saves what a page shows into a folder. Returns the path of the file. */
export async function save(page, folder) {
  const session = await page.createCDPSession();
  await session.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: folder });
  await page.bringToFront();
  await click(page, '#save');
  for (const end = Date.now() + LIMIT; Date.now() < end; await pause(100)) {
    const file = (await readdir(folder)).find((name) => name.endsWith('.html'));
    if (file) return path.join(folder, file);
  }
  throw new Error('nothing was saved');
}

/** Waits until a picture is worth a look. With `--short` nobody looks. */
export const compose = (ms) => pause(isShort ? ms / 10 : ms);

/** Makes pictures of views: `[name, hash, width, height, scheme]` each. */
export async function photograph(url, views) {
  for (const [name, hash, width, height, scheme] of views) {
    const page = await open(`${url}#${hash}`, { width, height, scheme });
    await until(page, 'the page is live', () => document.getElementById('live').dataset.is === 'live');
    await compose(1500);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert(wide <= 0, `${name} is ${wide} pixels too wide`);
    await page.screenshot({ path: path.join(pictures, `${name}.png`) });
    assertClean(page);
    await page.close();
  }
}
