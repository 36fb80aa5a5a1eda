/** Changes of settings as tables: what would change, what has changed, how two revisions differ. */

import type { JSX } from "preact";
import type { Changed, Outcome } from "../../state/settings.ts";
import { shown } from "../../state/settings.ts";
import { Table } from "../../ui/table.tsx";
import { settingsWords } from "../../words/settings/index.ts";

export function ChangedTable({ label, rows, hasBefore = true }: { label: string; rows: readonly Changed[]; hasBefore?: boolean }): JSX.Element {
  const text = settingsWords.value;
  return (
    <Table
      label={label}
      rows={rows}
      keyOf={({ key }) => key}
      columns={[
        { head: text.setting, cell: ({ key }) => <code>{key}</code> },
        ...(hasBefore ? [{ head: text.before, cell: ({ from }: Changed) => <del dir="auto">{from === undefined ? text.nothingSet : shown(from)}</del> }] : []),
        { head: text.after, cell: ({ to }) => <ins dir="auto">{to === undefined || to === null ? text.nothingSet : shown(to)}</ins> },
      ]}
    />
  );
}

/** The result of a dry run. */
export function Preview({ outcome }: { outcome: Outcome }): JSX.Element {
  const text = settingsWords.value;
  if (outcome.changed.length === 0) return <p class="empty" role="status">{text.previewNothing}</p>;
  return (
    <div class="preview" role="status">
      <h3>{text.preview}</h3>
      <ChangedTable label={text.preview} rows={outcome.changed} />
      {outcome.live.length > 0 && <p>{text.previewLive}: {outcome.live.map((key) => <code key={key}>{key} </code>)}</p>}
      {outcome.restartRequired.length > 0 && <p class="warn">{text.previewRestart}: {outcome.restartRequired.map((key) => <code key={key}>{key} </code>)}</p>}
    </div>
  );
}
