// The page of a simulated gateway, whose routes, names and servers are made for these checks.

import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

import { LIMIT, assert, assertClean, browser, click, compose, confirm, isLive, isLong, open, pause, photograph, pictures, save, simulate, until, view, withFolder } from './browser.mjs';
import { measureMemory, measureTasks } from './long.mjs';

/** Returns a saved file with wrong types, odd names and markup in every place. */
function hostileFile(data) {
  const nasty = '</script><img src=x onerror=alert(1)>"\'\r\n';
  const s = data.snapshot;
  s.schema.series.push({ name: 'constructor', title: nasty, unit: '__proto__', kind: 'count', column: true }, { name: '__proto__', title: nasty, unit: nasty, column: true });
  s.schema.events.push({ name: nasty, title: nasty }, { name: 7 });
  const [first, second] = [s.routes.find((route) => route.key === 'slow'), s.routes.find((route) => route.key === 'flaky')];
  Object.assign(first, { group: nasty, upstream: nasty, says: nasty, reason: nasty, level: 'constructor', spark: ['x', null, 1e308, -5] });
  first.values = first.values.map((_, at) => [nasty, 1e308, -1, {}, [], true, null][at % 7]);
  Object.assign(second, { values: 'none', spark: 7, level: 9 });
  second.values = s.schema.series.map(() => 99);
  s.routes.push({ key: 'constructor' }, { key: '__proto__', values: [1] });
  s.upstreams.push({ name: nasty, servers: [{ address: nasty, share: 'x', weight: nasty, up: nasty }] }, {});
  s.loops.push({ name: nasty, busy: 'x', longest_task: nasty }, {});
  s.knobs.push({ name: nasty, title: nasty, choices: [nasty, 7], value: nasty }, {});
  s.log.push({ time_ms: 1e300, kind: nasty, origin: nasty, what: nasty, route: nasty }, { time_ms: 'x' });
  for (const past of data.histories) {
    past.times.push(1e300, 'x', -1);
    delete past.series.limit;
    past.series.ok = nasty;
    past.heat.total = [nasty, [1e308, 'x'], 7];
    past.moves.push({ time_ms: s.time_ms, from: 'x', to: nasty, why: nasty });
    past.transitions.push({ time_ms: s.time_ms, from: 99, to: -1 });
  }
  return JSON.stringify(data).replace('"epoch":', '"__proto__":{"polluted":true},"epoch":');
}

export const checks = {
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
    await confirm(page, { token: 'page-token' });
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
    await until(page, 'the settings are there', () => document.querySelector('[data-setting$=".limit.max"]'));
    await click(page, '[data-setting$=".limit.max"]');
    await confirm(page, { value: '37' });
    await until(page, 'the limit is 37', () => value(model.byKey.get('flaky'), 'limit') === 37);
    // A wrong value is refused with the reason, and nothing changes.
    await until(page, 'the dialog is closed', () => !document.querySelector('dialog[open]'));
    await click(page, '[data-setting$=".limit.max"]');
    await confirm(page, { value: 'many' });
    await until(page, 'the reason', () => document.getElementById('ask-wrong').textContent.includes('many'));
    await click(page, '#ask-no');
    page.errors.length = 0; // The refusal is an error of the network for the browser.
    await click(page, '.knob button', 'normal');
  },

  async 'a wrong token is refused, and a server is drained'({ gateway }) {
    const page = await open(`${gateway.url}#view=servers`, { allowErrors: true });
    await until(page, 'the servers are there', () => document.querySelectorAll('td button').length === 3);
    await click(page, 'td button', 'Drain');
    await confirm(page, { token: 'wrong' });
    await until(page, 'the reason', () => /token is wrong/.test(document.getElementById('ask-wrong').textContent));
    await confirm(page, { token: 'page-token' });
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
    await page.evaluate(() => document.querySelector('[role=grid]').focus());
    await page.keyboard.press('ArrowDown');
    await until(page, 'the row is open', () => document.querySelector('.detail h2')?.textContent === 'service-0009');
    await page.goBack();
    await until(page, 'and closed again', () => !document.querySelector('.detail'));
    assertClean(page);
    await page.close();
  },

  async 'a saved snapshot opens from a file and shows the same values'({ page, gateway }) {
    await withFolder(async (folder) => {
      const file = await save(page, folder);
      const text = await readFile(file, 'utf8');
      const data = JSON.parse(text.split('id="saved">')[1].split('</')[0]);
      assert(/<meta http-equiv="Content-Security-Policy" content="default-src 'none'; [^"]*script-src 'sha256-/.test(text), 'the file has no policy');
      const saved = await open(`${pathToFileURL(file)}#route=slow`);
      await until(saved, 'the route is open', () => document.querySelectorAll('.detail .tile').length > 20);
      const shown = await saved.evaluate(() => ({ says: model.byKey.get('slow').says, values: model.byKey.get('slow').values, ticks: model.histories.get('slow').times.length, buttons: document.getElementById('reload').disabled }));
      const own = data.snapshot.routes.find((route) => route.key === 'slow');
      assert(shown.says === own.says && String(shown.values) === String(own.values), 'other values');
      assert(shown.ticks > 0 && shown.buttons, 'there is a history, and nothing can be changed');
      assertClean(saved);
      await saved.screenshot({ path: path.join(pictures, 'saved.png') });
      await saved.close();
      // A file of another version, and one that is none: one sentence each. The page stays live.
      const live = await open(gateway.url);
      await until(live, 'the page is live', isLive);
      const upload = async (name, text) => {
        await live.evaluate(() => { notice(''); });
        await writeFile(path.join(folder, name), text);
        await (await live.$('#file')).uploadFile(path.join(folder, name));
      };
      const wrong = [['old.json', '{"version":99,"snapshot":{}}', /version 99.*Open the saved file itself/], ['none.json', 'hello', /no saved snapshot/], ['null.json', 'null', /no saved snapshot/],
        ['empty.json', '{"version":1,"snapshot":{}}', /no saved snapshot/], ['list.json', '{"version":1,"snapshot":{"schema":{"series":[7]}}}', /no saved snapshot/], ['odd.html', '<p>hello', /no saved snapshot/]];
      for (const [name, text, said] of wrong) {
        await upload(name, text);
        await until(live, said.source, (source) => new RegExp(source).test(document.getElementById('notice').textContent), said.source);
        assert(await live.evaluate(isLive), `${name}: the page is not live any more`);
      }
      // One whose parts are hostile: it is shown, as text and without errors.
      const hostile = hostileFile(JSON.parse(JSON.stringify(data)));
      await upload('hostile.json', hostile);
      await until(live, 'the file is shown', () => /a saved snapshot/.test(document.getElementById('notice').textContent));
      for (const hash of ['route=slow', 'route=flaky', 'route=constructor', 'sort=__proto__', 'view=servers', 'view=loops', 'view=log', '']) {
        await view(live, hash);
        await pause(200);
        await live.evaluate(() => render());
      }
      const found = await live.evaluate(() => [document.images.length, document.scripts.length, document.querySelectorAll('[onerror]').length, Object.prototype.polluted === undefined]);
      assert(String(found) === '0,1,0,true', `something has become markup: ${found}`);
      assertClean(live);
      await live.close();
    });
  },

  async 'a hidden tab gets no frames, and goes on without a gap'({ gateway }) {
    const page = await open(gateway.url);
    await until(page, 'the page is live', isLive);
    const hide = (is) => page.evaluate((is) => { Object.defineProperty(document, 'hidden', { value: is, configurable: true }); document.dispatchEvent(new Event('visibilitychange')); }, is);
    await hide(true);
    await until(page, 'it says so', () => document.getElementById('live').textContent === 'paused while hidden');
    const before = await page.evaluate(() => { window.full = 0; const own = take; take = (snapshot) => { window.full++; own(snapshot); }; return model.snapshot.sample; });
    await pause(2500);
    assert(await page.evaluate(() => model.snapshot.sample) === before, 'frames came');
    await hide(false);
    await until(page, 'it goes on', (before) => model.snapshot.sample > before + 4, before);
    assert(await page.evaluate(() => window.full) === 0, 'it began again, and did not go on');
    assertClean(page);
    await page.close();
  },

  async 'a page too many is told so, and gets a place when one is closed'({ gateway }) {
    const page = await open(gateway.url);
    await until(page, 'the page is live', isLive);
    await page.evaluate(() => disconnect());
    // A tab that is not in front gives its place back, so these are no tabs.
    const others = [];
    for (const end = Date.now() + LIMIT; others.length < 5 && Date.now() < end;) {
      const other = http.get(`${gateway.url}page/events`);
      const [response] = await once(other, 'response');
      const [first] = await once(response, 'data');
      response.on('error', () => {}).resume();
      if (String(first).includes('event: full')) others.push(other); else other.destroy();
    }
    await page.evaluate(() => connect());
    await until(page, 'the sentence', () => /at most 5 pages are open at once; close one/.test(document.getElementById('notice').textContent));
    for (const other of others) other.destroy();
    await until(page, 'its place', isLive);
    assertClean(page);
    await page.close();
  },

  async 'a browser without EventSource is told what to do'({ gateway }) {
    const page = await browser.newPage();
    await page.evaluateOnNewDocument(() => { delete window.EventSource; });
    await page.goto(gateway.url, { waitUntil: 'domcontentloaded' });
    await until(page, 'the sentence', () => /no EventSource.*tidegate top/.test(document.getElementById('notice').textContent));
    await page.close();
  },

  async 'everything has a label, and a screen reader can follow the list'({ gateway }) {
    const page = await open(gateway.url);
    await until(page, 'the page is live', isLive);
    for (const hash of ['', 'route=slow', 'view=servers', 'view=loops', 'view=log']) {
      await view(page, hash);
      await pause(700);
      const nameless = [];
      const walk = (node) => {
        const isNamed = ['button', 'textbox', 'searchbox', 'combobox', 'image', 'img', 'tab', 'link', 'grid', 'table', 'columnheader'].includes(node.role);
        if (isNamed && !node.name?.trim()) nameless.push(node.role);
        for (const child of node.children ?? []) walk(child);
      };
      walk(await page.accessibility.snapshot({ interestingOnly: false }));
      assert(nameless.length === 0, `${hash || 'the list'}: without a name: ${nameless}`);
    }
    await view(page, 'sort=name&dir=asc');
    await until(page, 'the list is there', isLive);
    const list = await page.evaluate(() => ({
      sorted: document.querySelector('[role=columnheader][aria-sort]')?.textContent,
      count: document.querySelector('[role=grid]').getAttribute('aria-rowcount'),
      routes: String(model.snapshot.routes.length + 1),
    }));
    assert(list.sorted === 'Route' && list.count === list.routes, JSON.stringify(list));
    await page.focus('[role=grid]');
    await page.keyboard.press('ArrowDown');
    await until(page, 'the row that is chosen is announced', () => {
      const row = document.getElementById(document.querySelector('[role=grid]').getAttribute('aria-activedescendant'));
      return row?.getAttribute('aria-selected') === 'true' && document.activeElement === document.querySelector('[role=grid]');
    });
    // A change is said, and not only shown.
    await fetch(`${gateway.url}api/servers/catalog/10.0.0.3:80/drain`, { method: 'POST', headers: { Authorization: 'Bearer page-token' } });
    await until(page, 'it is said', () => /10\.0\.0\.3/.test(document.querySelector('[aria-live=polite]').textContent));
    assertClean(page);
    await page.close();
  },

  async 'nothing moves if the system asks for that'({ gateway }) {
    const moving = async (motion) => {
      const page = await open(`${gateway.url}#route=slow`, { motion });
      await until(page, 'the page is live', isLive);
      const count = await page.evaluate(() => [...document.querySelectorAll('*')].flatMap((node) => ['', '::before', '::after'].map((part) => getComputedStyle(node, part || null)))
        .filter((style) => style.transitionDuration.split(',').some((time) => parseFloat(time) > 0) || style.animationName !== 'none').length);
      await page.close();
      return count;
    };
    assert(await moving('no-preference') > 0, 'the test sees no motion at all');
    assert(await moving('reduce') === 0, 'something moves');
  },

  async 'the page reconnects after the gateway restarts'({ page, world }) {
    await page.bringToFront();
    await until(page, 'the page is live', () => document.getElementById('live').dataset.is === 'live');
    const epoch = await page.evaluate(() => model.snapshot.epoch);
    await world.gateway.end();
    await until(page, 'it notices', () => document.getElementById('live').dataset.is === 'waits');
    world.gateway = await simulate(`127.0.0.1:${world.gateway.port}`, 14);
    await until(page, 'it is live again', (epoch) => document.getElementById('live').dataset.is === 'live' && model.snapshot.epoch !== epoch, epoch);
    page.errors.length = 0; // Refused connections are errors for the browser.
  },

  async 'pictures are made of every kind of route'({ gateway }) {
    await fetch(`${gateway.url}api/knobs/flaky/failing`, { method: 'POST', headers: { Authorization: 'Bearer page-token' } });
    await compose(isLong ? 45_000 : 10_000);
    await photograph(gateway.url, [
      ['simulated-list', '', 1280, 760, 'light'], ['simulated-adaptive', 'route=adaptive', 1440, 1000, 'light'],
      ['simulated-servers', 'view=servers', 1100, 500, 'light'], ['simulated-phone', 'route=flaky', 390, 844, 'dark'],
    ]);
  },

  async 'a thousand routes stay usable'() {
    const gateway = await simulate('127.0.0.1:0', 1000);
    try {
      const page = await open(gateway.url);
      await until(page, 'the page is live', isLive);
      const rows = await page.evaluate(() => [document.querySelectorAll('.row').length, model.snapshot.routes.length]);
      assert(rows[0] < 60 && rows[1] === 1000, `${rows[0]} rows exist of ${rows[1]}`);
      await page.evaluate(() => { document.querySelector('.scroll').scrollTop = 20_000; });
      await until(page, 'other rows are shown', () => [...document.querySelectorAll('.row:not(.hidden)')].some((row) => +row.getAttribute('aria-rowindex') > 330));
      if (isLong) await measureTasks(page);
      assertClean(page);
      await page.close();
    } finally {
      await gateway.end();
    }
    if (isLong) await measureMemory();
  },
};
