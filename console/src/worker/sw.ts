/**
 * The start without a connection: the page and the files that it has loaded before come from this browser.
 *
 * Nothing of the API is kept here, so nothing of one user is shown to another.
 */

interface Lifetime extends Event {
  waitUntil(work: Promise<unknown>): void;
}

interface Fetching extends Lifetime {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
}

const worker = self as unknown as { skipWaiting(): Promise<void>; clients: { claim(): Promise<void> } };

const CACHE = "avm-1";
const PAGE = "/";
const FILES_MAX = 120;

self.addEventListener("install", (event) => (event as Lifetime).waitUntil(install()));
self.addEventListener("activate", (event) => (event as Lifetime).waitUntil(worker.clients.claim()));
self.addEventListener("fetch", (event) => {
  const { request } = event as Fetching;
  const { origin, pathname } = new URL(request.url);
  if (request.method !== "GET" || origin !== location.origin) return;
  if (request.mode === "navigate" && !isApi(pathname)) (event as Fetching).respondWith(page(request));
  else if (pathname.startsWith("/assets/") || pathname === "/icon.svg") (event as Fetching).respondWith(file(request));
});

const isApi = (path: string) => /^\/(v1|docs|openapi\.json|health|ws|metrics|answer)(\/|$)/.test(path);

/** Keeps the page and the files that it names. */
async function install(): Promise<void> {
  const cache = await caches.open(CACHE);
  const response = await fetch(PAGE, { cache: "no-cache" });
  const text = await response.clone().text();
  await cache.put(PAGE, response);
  await cache.addAll([...text.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path]) => path ?? PAGE));
  await worker.skipWaiting();
}

/** Every page is the same document: the newest one, or the last one while the server is away. */
async function page(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (isDocument(response)) await cache.put(PAGE, response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match(PAGE);
    if (kept === undefined) throw error;
    return kept;
  }
}

/** Whether it is the document of the console: other pages of this server hold what is meant for one person, and say so. */
const isDocument = ({ ok, headers }: Response) =>
  ok && headers.get("content-type")?.startsWith("text/html") === true && headers.get("cache-control")?.includes("no-store") !== true;

/** The names of files hold their digests, so a file that is kept is the right one. */
async function file(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request);
  if (kept !== undefined) return kept;
  const response = await fetch(request);
  if (response.ok) {
    await cache.put(request, response.clone());
    const names = await cache.keys();
    await Promise.all(names.slice(0, Math.max(0, names.length - FILES_MAX)).map((name) => cache.delete(name)));
  }
  return response;
}
