/** How the user likes the console: stored at the server, the same on every device, and here for the next start. */

import type { Preferences } from "../link/client.ts";
import { signal } from "@preact/signals";
import { request } from "../link/http.ts";
import { changeTheme, setTheme } from "../theme.ts";
import { type Language, setLanguage } from "../words/index.ts";

export type { Preferences };

const PATH = "/v1/auth/preferences";

export const preferences = signal<Preferences>({});

let saving: Promise<unknown> = Promise.resolve();
/** Changes that are not stored yet. */
let unsaved: Preferences = {};

/** Reads and applies the preferences of the user who has signed in. What is changed meanwhile is stored with what was read. */
export function loadPreferences(): Promise<void> {
  const loaded = request<Preferences>("GET", PATH).then((read) => apply({ ...read, ...unsaved }));
  saving = Promise.allSettled([saving, loaded]);
  return loaded;
}

/** Applies a change at once, and stores it after those before it. */
export function changePreferences(change: Preferences): Promise<void> {
  const before = preferences.peek();
  unsaved = { ...unsaved, ...change };
  apply({ ...before, ...change });
  const saved = saving.then(async () => {
    const next = { ...preferences.peek(), ...change };
    unsaved = {};
    await request<Preferences>("PUT", PATH, next);
  });
  saving = saved.catch(() => apply(before));
  return saved;
}

/** The choice of this device; a user who has one for all devices changes that. */
export function chooseLanguage(language: Language): Promise<void> {
  return preferences.peek().language === undefined ? setLanguage(language) : changePreferences({ language });
}

export function chooseTheme(): Promise<void> {
  const theme = changeTheme();
  return preferences.peek().theme === undefined ? Promise.resolve() : changePreferences({ theme });
}

function apply(next: Preferences): void {
  const before = preferences.value;
  preferences.value = next;
  if (next.language !== undefined) setLanguage(next.language).catch(() => undefined);
  if (next.theme !== undefined || before.theme !== undefined) setTheme(next.theme);
  if (next.density === "dense") document.documentElement.dataset["density"] = "dense";
  else delete document.documentElement.dataset["density"];
}
