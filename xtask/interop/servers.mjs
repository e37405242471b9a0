// A server for our HTTP client: `servers.mjs PORT FOLDER`. `cargo xtask interop` runs it.
// It serves the folder, chunks, an echo, and responses that end early.

import { createServer } from "node:http";
import { createReadStream, statSync } from "node:fs";
import { join } from "node:path";

const [port, folder] = process.argv.slice(2);

function file(request, response) {
  const path = join(folder, new URL(request.url, "http://localhost").pathname);
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found?.isFile()) {
    response.writeHead(404, { "Content-Length": 0 }).end();
    return;
  }
  response.writeHead(200, { "Content-Length": found.size });
  if (request.method === "HEAD") {
    response.end();
  } else {
    createReadStream(path).pipe(response);
  }
}

const pages = {
  "/chunked": (request, response) => {
    for (let number = 0; number < 100; number += 1) {
      response.write(`chunk ${number}\n`);
    }
    response.end();
  },
  // After the whole body: a client may stop sending when the response comes.
  "/echo": async (request, response) => response.end(Buffer.concat(await request.toArray())),
  "/cut": (request, response) => {
    response.writeHead(200, { "Content-Length": 100 });
    response.write("some", () => response.destroy());
  },
  "/cut-chunked": (request, response) => {
    response.write("some", () => response.destroy());
  },
  "/reset": (request) => request.socket.resetAndDestroy(),
};

createServer((request, response) => (pages[request.url] ?? file)(request, response)).listen(
  Number(port),
  "127.0.0.1",
);
