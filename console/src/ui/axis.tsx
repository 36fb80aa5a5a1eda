import type { JSX } from "preact";

/** The numbers beside a chart: its top, the middle and nothing, each level with its line; nothing alone, if there is no more. */
export function Axis({ top, format }: { top: number; format: (value: number) => string }): JSX.Element {
  return <p class="chart-axis">{(top > 0 ? [top, top / 2, 0] : [0]).map((value) => <span key={value}>{format(value)}</span>)}</p>;
}
