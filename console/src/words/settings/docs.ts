/** The sentences of settings. The server has them in English; other languages are fetched. */

import { wing } from "../wing.ts";

const docs = await wing<Record<string, string>>({}, () => import("./docs_zh.ts"));

/** A setting with a name that the operator chose has the sentence of its pattern: `llm.providers.*.model`. */
export function settingDoc(key: string, english: string): string {
  const pattern = Object.keys(docs.value).find((name) => {
    const [start = "", end] = name.split("*");
    return end === undefined ? name === key : key.startsWith(start) && key.endsWith(end) && key.length > start.length + end.length;
  });
  return pattern === undefined ? english : (docs.value[pattern] ?? english);
}
