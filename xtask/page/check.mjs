// Opens the pages of gateways in headless Chromium and checks what they show and do.
//
//   node check.mjs <folder of node_modules> <path of Chromium> <simulated gateway> <tidegate> <folder for pictures> [--long|--short]
//
// Each check is a function with a name; the first one that fails ends the program with status 1.
// `--short` does not wait until the pictures are worth a look.
// `--long` also measures the tasks of the page with 1,000 routes, and its memory over an hour of frames.
// `ONLY=text` runs only the checks whose names have the text.

import path from 'node:path';

import { assertClean, finish, open, pictures, simulate } from './browser.mjs';
import { checks as real } from './real.mjs';
import { checks as simulated } from './simulated.mjs';

let failure;
async function all(checks, world, page) {
  for (const [name, check] of Object.entries(checks)) {
    if (failure || !name.includes(process.env.ONLY ?? '')) continue;
    const begin = Date.now();
    try {
      await check({ page, world, gateway: world.gateway });
      if (page) assertClean(page);
      console.log(`ok      ${name} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
    } catch (error) {
      await page?.screenshot({ path: path.join(pictures, 'failed.png') }).catch(() => {});
      failure = `FAILED  ${name}: ${error.message}`;
    }
  }
}

try {
  const world = { gateway: await simulate('127.0.0.1:0', 14) };
  const page = await open(world.gateway.url);
  await all(simulated, world, page);
  await page.close();
  await world.gateway.end();
  await all(real, {});
} catch (error) {
  failure ??= `FAILED  ${error.message}`;
} finally {
  await finish();
}
if (failure) {
  console.error(failure);
  process.exit(1);
}
