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
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}

export function clock(at: number, language: string): string {
  return new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" }).format(at);
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

/** A size in the largest unit that leaves a whole number before the point. */
export function bytes(size: number): string {
  const units = ["B", "KB", "MB", "GB"];
  const step = size < 1_000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(size) / 3));
  return `${step === 0 ? size : (size / 1_000 ** step).toFixed(1)} ${units[step]}`;
}

/** How long ago or until: 2 min ago, in 6 h. */
export function distance(at: number, language: string, now: number): string {
  const seconds = (at - now) / 1_000;
  const size = Math.abs(seconds);
  const [unit, count] = size < 3_600 ? (["minute", 60] as const) : size < 86_400 ? (["hour", 3_600] as const) : (["day", 86_400] as const);
  return new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" }).format(Math.round(seconds / count), unit);
}
