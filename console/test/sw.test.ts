import assert from "node:assert/strict";
import { test } from "node:test";

interface Fetching {
  request: { url: string; method: string; mode: string };
  respondWith(response: Promise<Response>): void;
}

const ORIGIN = "http://localhost";
const listeners = new Map<string, (event: Fetching) => void>();
const kept = new Map<string, string>();

/** Opens an address as a browser would, and returns whether the worker has answered. */
async function visit(path: string, headers: Record<string, string>): Promise<boolean> {
  globalThis.fetch = () => Promise.resolve(new Response(path, { headers: { "content-type": "text/html", ...headers } }));
  let answer: Promise<Response> | undefined;
  listeners.get("fetch")?.({
    request: { url: ORIGIN + path, method: "GET", mode: "navigate" },
    respondWith: (response) => {
      answer = response;
    },
  });
  await answer;
  return answer !== undefined;
}

test("the worker keeps the document of the console, and no page that is meant for one person", async () => {
  const cache = { put: async (path: string, response: Response) => void kept.set(path, await response.text()) };
  Object.assign(globalThis, {
    self: { addEventListener: (name: string, listener: (event: Fetching) => void) => listeners.set(name, listener) },
    location: { origin: ORIGIN },
    caches: { open: () => Promise.resolve(cache) },
  });
  await import(new URL("../src/worker/sw.ts", import.meta.url).href);
  assert.equal(await visit("/usage", { "cache-control": "no-cache" }), true);
  assert.equal(kept.get("/"), "/usage");
  assert.equal(await visit("/somewhere", { "cache-control": "no-store" }), true);
  assert.equal(kept.get("/"), "/usage");
  assert.equal(await visit("/answer/secret", {}), false);
  assert.equal(kept.get("/"), "/usage");
});
