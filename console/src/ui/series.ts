/** Series of a plot. Pure. */

export interface Series {
  name: string;
  values: readonly number[];
}

const COLOURS = 5;

/** The largest series by themselves, the others as one. */
export function largest(series: readonly Series[], others: string): Series[] {
  const sum = ({ values }: Series) => values.reduce((all, value) => all + value, 0);
  const sorted = series.toSorted((a, b) => sum(b) - sum(a));
  if (sorted.length <= COLOURS) return sorted;
  const rest = sorted.slice(COLOURS - 1);
  return [...sorted.slice(0, COLOURS - 1), { name: others, values: rest[0]!.values.map((_, step) => rest.reduce((all, one) => all + (one.values[step] ?? 0), 0)) }];
}
