import type { ComponentChildren, JSX } from "preact";

export interface Column<R> {
  head: string;
  cell: (row: R) => ComponentChildren;
  /** Figures stand at the end of their column. */
  isFigure?: boolean;
}

interface Props<R> {
  /** Read aloud before the table. */
  label: string;
  columns: readonly Column<R>[];
  rows: readonly R[];
  keyOf: (row: R) => string;
}

/** A table; on a phone each row becomes labelled lines. */
export function Table<R>({ label, columns, rows, keyOf }: Props<R>): JSX.Element {
  return (
    // A table may be wider than the page: it scrolls in its place, also by keys.
    // oxlint-disable-next-line no-noninteractive-tabindex
    <div class="table-scroll" role="group" aria-label={label} tabIndex={0}>
      <table class="table">
        <thead>
          <tr>
            {columns.map(({ head, isFigure }) => <th key={head} scope="col" class={isFigure ? "figure" : undefined}>{head}</th>)}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ head, cell, isFigure }) => <td key={head} data-label={head} class={isFigure ? "figure" : undefined}><div>{cell(row)}</div></td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
