/** Full times, sizes and long durations. */

/** The day and the time to the second. */
export function stamp(at: number, language: string): string {
  return new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "medium" }).format(at);
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(count: number): string {
  let [value, unit] = [count, 0];
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** Days and hours, or hours and minutes, or minutes. */
export function span(seconds: number, language: string): string {
  const [days, hours, minutes] = [Math.floor(seconds / 86_400), Math.floor(seconds / 3_600) % 24, Math.floor(seconds / 60) % 60];
  const part = (value: number, unit: "day" | "hour" | "minute") =>
    new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "short" }).format(value);
  if (days > 0) return `${part(days, "day")} ${part(hours, "hour")}`;
  return hours > 0 ? `${part(hours, "hour")} ${part(minutes, "minute")}` : part(minutes, "minute");
}
