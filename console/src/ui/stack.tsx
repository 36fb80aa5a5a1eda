/** Bars over time, each stacked of several series, drawn as SVG, with their table for readers who cannot see them. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { peopleWords } from "../words/people/index.ts";
import { Axis } from "./axis.tsx";
import { niceCeiling } from "./scale.ts";
import type { Series } from "./series.ts";
import { Table } from "./table.tsx";

interface Props {
  title: string;
  /** The names of the steps, in order. */
  steps: readonly string[];
  series: readonly Series[];
  format: (value: number) => string;
}

const [WIDTH, HEIGHT] = [600, 160];
const GAP = 0.25;

export function Stack({ title, steps, series, format }: Props): JSX.Element {
  const [isTable, setTable] = useState(false);
  const [hovered, setHovered] = useState<number | undefined>(undefined);
  const sums = steps.map((_, step) => series.reduce((all, { values }) => all + (values[step] ?? 0), 0));
  const top = niceCeiling(Math.max(0, ...sums));
  const width = WIDTH / Math.max(1, steps.length);
  const place = (event: PointerEvent & { currentTarget: Element }) => {
    const box = event.currentTarget.getBoundingClientRect();
    return Math.min(steps.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * steps.length)));
  };
  return (
    <figure class="stack">
      <figcaption>
        <h2>{title}</h2>
        <ul class="stack-key">
          {series.map(({ name, values }, index) => (
            <li key={name}><i class={`c${index + 1}`} /> <span dir="auto">{name}</span>{hovered !== undefined && <b> {format(values[hovered] ?? 0)}</b>}</li>
          ))}
        </ul>
        <button type="button" class="btn-quiet" aria-expanded={isTable} onClick={() => setTable(!isTable)}>{peopleWords.value.asTable}</button>
      </figcaption>
      {isTable ? (
        <Table
          label={title}
          rows={steps.map((_, step) => step).toReversed()}
          keyOf={String}
          columns={[
            { head: peopleWords.value.dayUtc, cell: (step) => steps[step] },
            ...series.map(({ name, values }) => ({ head: name, isFigure: true, cell: (step: number) => format(values[step] ?? 0) })),
          ]}
        />
      ) : (
        <div class="chart" aria-hidden="true">
          <p class="stack-now">{hovered === undefined ? "" : `${steps[hovered]} · ${format(sums[hovered]!)}`}</p>
          <Axis top={sums.some((sum) => sum > 0) ? top : 0} format={format} />
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" onPointerMove={(event) => setHovered(place(event))} onPointerLeave={() => setHovered(undefined)}>
            <path class="stack-grid" d={`M0 ${HEIGHT}H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 0H${WIDTH}`} />
            {series.map(({ name }, index) => <path key={name} class={`c${index + 1}`} d={bars(series, index, steps.length, width, top)} />)}
          </svg>
          <p class="chart-steps">{marks(steps).map((step) => <span key={step}>{step}{step === steps.at(-1) && " UTC"}</span>)}</p>
        </div>
      )}
    </figure>
  );
}

/** The steps that are named below the bars: the ends, and three between them. */
const marks = (steps: readonly string[]): string[] => [...new Set([0, 0.25, 0.5, 0.75, 1].map((part) => steps[Math.round(part * (steps.length - 1))]!))];

/** The bars of one series, each on top of those before it. */
function bars(series: readonly Series[], index: number, steps: number, width: number, top: number): string {
  let path = "";
  for (let step = 0; step < steps; step += 1) {
    const below = series.slice(0, index).reduce((all, { values }) => all + (values[step] ?? 0), 0);
    const value = series[index]!.values[step] ?? 0;
    if (value <= 0) continue;
    const height = (value / top) * HEIGHT;
    path += `M${(step + GAP / 2) * width} ${HEIGHT - (below / top) * HEIGHT}v${-height}h${width * (1 - GAP)}v${height}z`;
  }
  return path;
}
