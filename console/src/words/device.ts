/** Browsers and systems by the words that they write into `User-Agent`; the first that is found counts. */

const BROWSERS: readonly (readonly [word: string, name: string])[] = [
  ["Edg", "Edge"],
  ["OPR/", "Opera"],
  ["Firefox/", "Firefox"],
  ["FxiOS/", "Firefox"],
  ["Chrome/", "Chrome"],
  ["CriOS/", "Chrome"],
  ["Safari/", "Safari"],
];
const SYSTEMS: readonly (readonly [word: string, name: string])[] = [
  ["Android", "Android"],
  ["iPhone", "iPhone"],
  ["iPad", "iPad"],
  ["Windows", "Windows"],
  ["Mac OS X", "macOS"],
  ["CrOS", "ChromeOS"],
  ["Linux", "Linux"],
];

/** The name of a browser and its system, as people say it; else what the browser said of itself. */
export function deviceName(userAgent: string): string {
  const named = [BROWSERS, SYSTEMS].map((all) => all.find(([word]) => userAgent.includes(word))?.[1]);
  return named[0] === undefined ? userAgent : named.filter(Boolean).join(" · ");
}
