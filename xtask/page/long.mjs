// What takes longer: the tasks of the page with many routes, and its memory over an hour of frames.

import { readFileSync, readdirSync } from 'node:fs';
import os from 'node:os';

import { assert, isLive, open, pause, simulate, until } from './browser.mjs';

/** The share of a CPU that other programs may use on a machine that is otherwise idle. */
const QUIET = 0.25;
/** The longest that a task may take, at the 99th percentile. */
const TASK_MS = 50;
const RUNS = 3;
/** The frames of an hour, and the times at which memory is compared. */
const FRAMES = 7200, PARTS = 4;
/** The frames of one call of the page, which has a time limit. */
const CALL = 50;

/** Returns the CPU time in ticks that programs have used: all of them, and this check with its children. */
function ticks() {
  const all = readFileSync('/proc/stat', 'utf8').split('\n')[0].trim().split(/\s+/).slice(1).map(Number);
  const busy = all.slice(0, 8).reduce((sum, one) => sum + one, 0) - all[3] - all[4];
  const used = new Map(), parents = new Map();
  for (const id of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const fields = readFileSync(`/proc/${id}/stat`, 'utf8').split(') ').pop().split(' ');
      parents.set(id, fields[1]);
      used.set(id, +fields[11] + +fields[12]);
    } catch { /* It has ended. */ }
  }
  let own = 0;
  for (const [id, time] of used) {
    let at = id;
    while (at && at !== String(process.pid)) at = parents.get(at);
    if (at) own += time;
  }
  return { busy, own, time: Date.now() };
}

/** Returns how many CPUs other programs have used between two moments. There are 100 ticks in a second. */
const others = (before, after) => Math.max(0, (after.busy - before.busy) - (after.own - before.own)) / ((after.time - before.time) / 10);

/** Returns the 99th percentile of the tasks of a page within ten seconds: the time that passed, and the work of their thread. */
async function traced(page) {
  const at = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
  const before = await page.evaluate(() => model.snapshot.sample);
  await page.tracing.start({ categories: ['devtools.timeline', 'toplevel', 'disabled-by-default-devtools.timeline'] });
  await pause(10_000);
  const trace = JSON.parse(Buffer.from(await page.tracing.stop()).toString());
  const frames = await page.evaluate(() => model.snapshot.sample) - before;
  assert(frames >= 10, `only ${frames} samples came in ten seconds`);
  const main = trace.traceEvents.find((event) => event.name === 'thread_name' && event.args.name === 'CrRendererMain');
  const tasks = trace.traceEvents.filter((event) => event.pid === main.pid && event.tid === main.tid && /RunTask/.test(event.name) && event.dur);
  assert(tasks.length > 0, 'the trace has no tasks');
  const times = (name) => tasks.map((event) => (event[name] ?? 0) / 1000).sort((a, b) => a - b);
  return { time: at(times('dur'), 0.99), work: at(times('tdur'), 0.99) };
}

/**
 * Fails if the tasks of the page take too long at two frames a second, on a machine that is otherwise idle. A run beside other programs
 * says nothing about the page, and is made again; if the machine stays busy, a line says so.
 */
export async function measureTasks(page) {
  const runs = [];
  let [busiest, tries] = [0, 0];
  for (; runs.length < RUNS && tries < 3 * RUNS; tries++) {
    const before = ticks();
    const run = await traced(page);
    const share = others(before, ticks());
    console.log(`        tasks with 1,000 routes: p99 ${run.time.toFixed(1)} ms, ${run.work.toFixed(1)} ms of it work; other programs used ${share.toFixed(2)} CPUs`);
    if (share <= QUIET) runs.push(run.time); else busiest = Math.max(busiest, share);
  }
  if (runs.length < RUNS) {
    console.log(`skipped the time of tasks: the machine is busy (load average ${os.loadavg()[0].toFixed(1)}, other programs used up to ${busiest.toFixed(2)} CPUs); ${runs.length} of ${tries} runs were quiet`);
    return;
  }
  const median = runs.sort((a, b) => a - b)[1];
  console.log(`        tasks with 1,000 routes: p99 ${median.toFixed(1)} ms (median of ${RUNS} runs)`);
  assert(median > 0 && median < TASK_MS, `the 99th percentile of tasks is ${median.toFixed(1)} ms, and the limit is ${TASK_MS} ms`);
}

/**
 * Plays an hour of frames fast: the clock of the gateway moves by one sample when the page has drawn the one before. A route is open, so
 * that its charts are drawn, too.
 */
export async function measureMemory() {
  const gateway = await simulate('127.0.0.1:0', 1000, 'steps');
  const page = await open(`${gateway.url}#route=slow`);
  try {
    // The first sample of a page comes at once.
    await until(page, 'the page is live', isLive);
    const session = await page.createCDPSession();
    await session.send('HeapProfiler.enable');
    const [heap, begin] = [[], Date.now()];
    for (let part = 0; part < PARTS; part++) {
      for (let at = 0; at < FRAMES / PARTS; at += CALL) {
        const played = await page.evaluate(play, CALL);
        assert(played === CALL, `only ${played} of ${CALL} frames were drawn`);
      }
      await session.send('HeapProfiler.collectGarbage');
      heap.push((await page.metrics()).JSHeapUsedSize / 1e6);
    }
    const shown = await page.evaluate(() => ({ log: model.snapshot.log.length, times: model.histories.get('slow').times.length }));
    console.log(`        memory after each quarter of an hour of frames: ${heap.map((one) => one.toFixed(1)).join(', ')} MB (${FRAMES} frames in ${((Date.now() - begin) / 1000).toFixed(0)} s)`);
    assert(shown.log > 0 && shown.times === 200, `the page has not seen the hour: ${JSON.stringify(shown)}`);
    assert(heap[3] < heap[0] * 1.1 + 1, 'memory grows');
  } finally {
    await page.close();
    await gateway.end();
  }
}

/** Runs in the page: moves the clock, waits for the frame and draws it. Returns how many frames were drawn. */
async function play(frames) {
  const headers = { Authorization: 'Bearer page-token' };
  // The frame comes after the page has taken it, because this listener is the younger one.
  const frame = () => new Promise((done) => {
    const late = setTimeout(done, 60_000, false);
    const came = () => { clearTimeout(late); source.removeEventListener('change', came); source.removeEventListener('full', came); done(true); };
    source.addEventListener('change', came);
    source.addEventListener('full', came);
  });
  // Each frame is drawn here, at once, and not with the next picture of the screen.
  dirty = true;
  try {
    for (let at = 0; at < frames; at++) {
      const next = frame();
      const answer = await fetch('/api/knobs/clock/step', { method: 'POST', headers });
      if (!answer.ok) throw new Error(await answer.text());
      await answer.text();
      if (!await next) return at;
      render();
    }
  } finally {
    dirty = false;
  }
  return frames;
}
