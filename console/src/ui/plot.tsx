/** A plot of lines over time, drawn as SVG, with its table for readers who cannot see it. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { activityWords } from "../words/activity/index.ts";
import { clock } from "../words/format.ts";
import { language } from "../words/index.ts";
import { Axis } from "./axis.tsx";
import { linePath, nearest, niceCeiling } from "./scale.ts";
import { Table } from "./table.tsx";

export interface PlotLine {
  name: string;
  values: readonly (number | null | undefined)[];
}

interface Props {
  title: string;
  /** The moments of the values, in order. */
  at: readonly number[];
  lines: readonly PlotLine[];
  format: (value: number) => string;
  /** Whether the scale ends at a power of two, as sizes do. */
  isBinary?: boolean;
}

const [WIDTH, HEIGHT] = [600, 120];
const TABLE_ROWS = 60;

export function Plot({ title, at, lines, format, isBinary = false }: Props): JSX.Element {
  const [hovered, setHovered] = useState<number | undefined>(undefined);
  const [isTable, setTable] = useState(false);
  const most = lines.flatMap(({ values }) => values).reduce<number>((max, value) => Math.max(max, value ?? 0), 0);
  const top = isBinary ? 2 ** Math.ceil(Math.log2(Math.max(1, most))) : niceCeiling(most);
  const [first = 0, last = 1] = [at[0], at.at(-1)];
  const x = (moment: number) => (last === first ? WIDTH / 2 : ((moment - first) / (last - first)) * WIDTH);
  const index = hovered ?? at.length - 1;
  return (
    <figure class="plot">
      <figcaption>
        <h2>{title}</h2>
        <button type="button" class="btn-quiet" aria-expanded={isTable} onClick={() => setTable(!isTable)}>{activityWords.value.asTable}</button>
      </figcaption>
      <p class="plot-key">
        {lines.map(({ name, values }, line) => (
          <span key={name}>
            <i class={`c${line + 1}`} /> {name} <b>{values[index] === null || values[index] === undefined ? "—" : format(values[index])}</b>
          </span>
        ))}
        <time>{at[index] === undefined ? "" : clock(at[index], language.value)}</time>
      </p>
      {isTable ? (
        <PlotTable title={title} at={at} lines={lines} format={format} />
      ) : (
        <div class="chart" aria-hidden="true">
          <Axis top={most > 0 ? top : 0} format={format} />
          <svg
            viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
            preserveAspectRatio="none"
            onPointerMove={(event) => {
              const box = event.currentTarget.getBoundingClientRect();
              setHovered(nearest(at, first + ((event.clientX - box.left) / box.width) * (last - first)));
            }}
            onPointerLeave={() => setHovered(undefined)}
          >
            <path class="plot-grid" d={`M0 ${HEIGHT}H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 0H${WIDTH}`} />
            {lines.map(({ name, values }, line) => (
              <path key={name} class={`plot-line c${line + 1}`} d={linePath(values, (place) => x(at[place] as number), (value) => HEIGHT - (value / top) * HEIGHT)} />
            ))}
            {hovered !== undefined && at[hovered] !== undefined && <path class="plot-now" d={`M${x(at[hovered])} 0V${HEIGHT}`} />}
          </svg>
          <p class="chart-steps">{at.length > 0 && [...new Set([first, last])].map((moment) => <span key={moment}>{clock(moment, language.value)}</span>)}</p>
        </div>
      )}
    </figure>
  );
}

/** At most sixty rows, evenly spread. */
function PlotTable({ title, at, lines, format }: Props): JSX.Element {
  const step = Math.ceil(at.length / TABLE_ROWS);
  const rows = at.map((_, index) => index).filter((index) => (at.length - 1 - index) % step === 0).toReversed();
  return (
    <Table
      label={title}
      rows={rows}
      keyOf={String}
      columns={[
        { head: activityWords.value.time, cell: (index) => clock(at[index] as number, language.value) },
        ...lines.map(({ name, values }) => ({
          head: name,
          isFigure: true,
          cell: (index: number) => (values[index] === null || values[index] === undefined ? "—" : format(values[index])),
        })),
      ]}
    />
  );
}
