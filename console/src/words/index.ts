/** The language in use. Changing it does not reload the page. */

import { computed, signal } from "@preact/signals";
import { AgentVMError } from "../link/client.ts";
import { en, type Words } from "./en.ts";

export type Language = "en" | "zh";

const STORED = "avm.language";
const loaded = signal<Words>(en);
export const language = signal<Language>("en");
export const words = computed(() => loaded.value);
/** Between two sentences. */
export const gap = computed(() => (language.value === "zh" ? "" : " "));

/** Uses the language of the last visit, else of the browser; then that which is chosen in another tab. */
export function startLanguage(): Promise<void> {
  addEventListener("storage", ({ key, newValue }) => {
    if (key === STORED && isLanguage(newValue)) setLanguage(newValue).catch(() => undefined);
  });
  const stored = localStorage.getItem(STORED);
  return setLanguage(isLanguage(stored) ? stored : navigator.language.startsWith("zh") ? "zh" : "en");
}

const isLanguage = (name: string | null): name is Language => name === "en" || name === "zh";

function failed(): never {
  throw new AgentVMError("offline", "The words of this language could not be fetched");
}

export async function setLanguage(next: Language): Promise<void> {
  loaded.value = next === "zh" ? (await import("./zh.ts").catch(failed)).zh : en;
  language.value = next;
  localStorage.setItem(STORED, next);
  document.documentElement.lang = next === "zh" ? "zh-CN" : "en";
}
