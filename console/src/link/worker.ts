/** Registers the service worker, and loads the console again for a server that has another version than this tab. */

const WORKER = "/sw.js";
const RELOADED = "avm.reloaded";
const AGAIN_MS = 60_000;

interface Policies {
  createPolicy(name: string, rules: { createScriptURL: (url: string) => string }): { createScriptURL(url: string): unknown };
}

/** The page may start one script by its address: the worker. Everything else is refused by the policy. */
export function startWorker(): void {
  if (!("serviceWorker" in navigator) || import.meta.env.DEV) return;
  const { trustedTypes } = window as unknown as { trustedTypes?: Policies };
  const allowed = (url: string) => {
    if (url !== WORKER) throw new TypeError(`Not allowed: ${url}`);
    return url;
  };
  const address = trustedTypes?.createPolicy("avm", { createScriptURL: allowed }).createScriptURL(WORKER) ?? WORKER;
  // The console works without it, but does not start while the server is away.
  navigator.serviceWorker.register(address as string).catch(() => undefined);
}

/** A server with another version does not have the files of this one: the console is loaded once more, unless it just was. */
export async function reloadOnce(): Promise<void> {
  if (Date.now() - Number(sessionStorage.getItem(RELOADED) ?? 0) < AGAIN_MS) return;
  try {
    await fetch("/health", { cache: "no-store" });
  } catch {
    // The server is away, and not another one.
    return;
  }
  sessionStorage.setItem(RELOADED, String(Date.now()));
  location.reload();
}
