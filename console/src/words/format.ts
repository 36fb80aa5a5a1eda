/** Money, times and durations, each in one place. */

const NANO = 1_000_000_000;

/** Dollars with as many digits as the amount needs to be told from nothing. */
export function money(nano: number): string {
  if (nano === 0) return "$0";
  const dollars = nano / NANO;
  const size = Math.abs(dollars);
  const digits = size >= 1 ? 2 : Math.min(9, 3 - Math.floor(Math.log10(size)));
  return `${dollars < 0 ? "−" : ""}$${size.toFixed(digits)}`;
}

export function duration(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}

export function clock(at: number, language: string): string {
  return new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" }).format(at);
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
