/** The words of a wing of the console. They come with its pages, and in the language in use. */

import { effect, type ReadonlySignal, signal } from "@preact/signals";
import { language } from "./index.ts";

/** English is part of the chunk; Chinese is fetched when it is needed. Resolves when the words can be shown. */
export async function wing<W>(en: W, loadZh: () => Promise<{ zh: W }>): Promise<ReadonlySignal<W>> {
  const shown = signal(language.peek() === "zh" ? (await loadZh()).zh : en);
  effect(() => {
    const isZh = language.value === "zh";
    if (!isZh) shown.value = en;
    else loadZh().then(({ zh }) => language.peek() === "zh" && (shown.value = zh), () => undefined);
  });
  return shown;
}
