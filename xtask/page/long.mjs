// What takes longer: the tasks of the page with many routes, and its memory over an hour of frames.

import { assert, isLive, open, pause, simulate, until } from './browser.mjs';

/**
 * Prints how long the tasks of the page take at two frames a second, and fails above the aim. What counts is the time that the
 * thread of the page works, which other programs on the machine do not change; the time that passes is printed beside it.
 */
export async function measureTasks(page) {
  const at = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
  const runs = [];
  for (let run = 0; run < 3; run++) {
    const before = await page.evaluate(() => model.snapshot.sample);
    await page.tracing.start({ categories: ['devtools.timeline', 'toplevel', 'disabled-by-default-devtools.timeline'] });
    await pause(10_000);
    const trace = JSON.parse(Buffer.from(await page.tracing.stop()).toString());
    const frames = await page.evaluate(() => model.snapshot.sample) - before;
    assert(frames >= 10, `only ${frames} samples came in ten seconds`);
    const main = trace.traceEvents.find((event) => event.name === 'thread_name' && event.args.name === 'CrRendererMain');
    const tasks = trace.traceEvents.filter((event) => event.pid === main.pid && event.tid === main.tid && /RunTask/.test(event.name) && event.dur);
    const times = (name) => tasks.map((event) => (event[name] ?? 0) / 1000).sort((a, b) => a - b);
    runs.push([at(times('tdur'), 0.99), at(times('dur'), 0.99)]);
  }
  const median = (part) => runs.map((run) => run[part]).sort((a, b) => a - b)[1];
  console.log(`        tasks with 1,000 routes: p99 ${median(0).toFixed(1)} ms of work, ${median(1).toFixed(1)} ms of time (medians of three runs)`);
  assert(median(0) > 0 && median(0) < 50, 'tasks take too long');
}

/** Plays an hour of recorded frames fast, and compares the memory at its quarters. */
export async function measureMemory() {
  const gateway = await simulate('127.0.0.1:0', 1000);
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
    console.log(`        memory after each quarter of an hour of frames: ${heap.map((one) => one.toFixed(1)).join(', ')} MB`);
    assert(heap[3] < heap[0] * 1.1 + 1, 'memory grows');
  } finally {
    await page.close();
    await gateway.end();
  }
}
