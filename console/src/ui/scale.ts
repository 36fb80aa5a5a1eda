/** The geometry of plots. */

/** The next number of the form 1, 2 or 5 times a power of ten; 1 for nothing. */
export function niceCeiling(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= value * (1 - 1e-9)) ?? 10;
  return step * power;
}

/** The path of a line. A missing value is a gap; a value between two gaps is a short stroke. */
export function linePath(values: readonly (number | null | undefined)[], x: (index: number) => number, y: (value: number) => number): string {
  const parts: string[] = [];
  let isDrawing = false;
  for (const [index, value] of values.entries()) {
    if (value === null || value === undefined) {
      isDrawing = false;
      continue;
    }
    parts.push(`${isDrawing ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`);
    if (!isDrawing && (values[index + 1] ?? null) === null) parts.push("h4");
    isDrawing = true;
  }
  return parts.join("");
}

/** The index of the moment that is closest. */
export function nearest(at: readonly number[], moment: number): number {
  let best = 0;
  for (const [index, other] of at.entries()) if (Math.abs(other - moment) < Math.abs((at[best] as number) - moment)) best = index;
  return best;
}
