/** Addresses that an answer may link to. A model, or a page that it has read, may write any. */

const ALLOWED = new Set(["https:", "http:", "mailto:"]);

/** The address, if it may be followed. */
export function safeLink(href: string): URL | undefined {
  let url: URL;
  try {
    url = new URL(href);
  } catch {
    return undefined;
  }
  return ALLOWED.has(url.protocol) && url.username === "" && url.password === "" ? url : undefined;
}
