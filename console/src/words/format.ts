/** Money, numbers, times and durations, each in one place. */

const NANO = 1_000_000_000;

/** Dollars with four digits that tell, two decimals at least and nine at most: the smallest amount is a billionth. */
export function money(nano: number): string {
  if (nano === 0) return "$0";
  const size = Math.abs(nano) / NANO;
  const decimals = size >= 1 ? 2 : Math.min(9, 3 - Math.floor(Math.log10(size)));
  return signed(nano, size.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: decimals }));
}

/** Dollars with every digit. */
export function exactMoney(nano: number): string {
  const whole = Math.trunc(Math.abs(nano) / NANO).toLocaleString("en-US");
  const part = String(Math.abs(nano) % NANO).padStart(9, "0").replace(/0{1,7}$/, "");
  return signed(nano, `${whole}.${part}`);
}

const signed = (nano: number, text: string) => `${nano < 0 ? "−" : ""}$${text}`;

/** A count of tokens or calls, short: 22.1M, 2210万. */
export function short(count: number, language: string): string {
  return new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 }).format(count);
}

export function duration(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  const seconds = Math.round(ms / 1_000);
  return ms < 59_950 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** How many words a text has. Chinese is written without spaces: each of its characters counts. */
export const wordCount = (text: string): number => text.match(/\p{Script=Han}|(?:(?!\p{Script=Han})[\p{L}\p{N}_'’-])+/gu)?.length ?? 0;

export function clock(at: number, language: string): string {
  return new Intl.DateTimeFormat(language, { timeStyle: "short" }).format(at);
}

/** The day and the time. */
export function moment(at: number, language: string): string {
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }).format(at);
}

/** The time for today, else the day. */
export function when(at: number, language: string, now: number): string {
  const today = new Date(at).toDateString() === new Date(now).toDateString();
  return today ? clock(at, language) : new Intl.DateTimeFormat(language, { month: "short", day: "numeric" }).format(at);
}

/** How long ago or until: 2 min ago, in 6 h. */
export function distance(at: number, language: string, now: number): string {
  const seconds = (at - now) / 1_000;
  const size = Math.abs(seconds);
  if (size < 60) return new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" }).format(seconds <= 0 ? 0 : Math.ceil(seconds), "second");
  const [unit, count] = size < 3_600 ? (["minute", 60] as const) : size < 86_400 ? (["hour", 3_600] as const) : (["day", 86_400] as const);
  return new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" }).format(Math.round(seconds / count), unit);
}

/** Those sentences of a text in English and Chinese that are in the language in use; the whole text, if none is. */
export function inLanguage(text: string, language: string): string {
  const isChinese = language.startsWith("zh");
  const sentences = text.split(/(?<=\.)\s+|(?<=。)\s*/u);
  const fitting = sentences.filter((sentence) => /\p{Script=Han}/u.test(sentence) === isChinese && sentence !== "");
  return fitting.length === 0 ? text : fitting.join(isChinese ? "" : " ");
}

/** The language of a text by the letters of its beginning, for fonts and voices; empty for letters that many languages have. */
export function languageOf(text: string): string {
  const start = text.slice(0, 400);
  const count = (letters: RegExp) => start.match(letters)?.length ?? 0;
  const [han, kana, hangul] = [count(/\p{Script=Han}/gu), count(/\p{Script=Hiragana}|\p{Script=Katakana}/gu), count(/\p{Script=Hangul}/gu)];
  if (han + kana + hangul < count(/\p{Script=Latin}+/gu)) return /[\u00C0-\u024F]/u.test(start) ? "" : "en";
  return kana > 0 ? "ja" : hangul > 0 ? "ko" : han > 0 ? "zh-CN" : "";
}
