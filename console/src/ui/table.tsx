import type { ComponentChildren, JSX } from "preact";

export interface Column<R> {
  head: string;
  cell: (row: R) => ComponentChildren;
  /** Figures stand at the end of their column. */
  isFigure?: boolean;
  /** Sentences have the room that other columns leave. */
  isText?: boolean;
}

/** What stands in a cell that has nothing to say. */
export const NOTHING = "—";

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
              {columns.map((column) => <Cell key={column.head} column={column} row={row} />)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cell<R>({ column, row }: { column: Column<R>; row: R }): JSX.Element {
  const content = column.cell(row);
  const kind = column.isFigure ? "figure" : content === NOTHING ? "none" : column.isText ? "text" : undefined;
  return <td data-label={column.head} class={kind}><div>{content}</div></td>;
}
