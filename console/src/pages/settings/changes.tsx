/** Changes of settings as tables: what would change, what has changed, how two revisions differ. */

import type { JSX } from "preact";
import type { Changed, Outcome } from "../../state/settings.ts";
import { shown } from "../../state/settings.ts";
import { Table } from "../../ui/table.tsx";
import { words } from "../../words/index.ts";
import { settingsWords } from "../../words/settings/index.ts";

/** `unset` is the value that counts where the layer that is changed has none. */
export function ChangedTable({ label, rows, unset }: { label: string; rows: readonly Changed[]; unset?: unknown }): JSX.Element {
  const text = settingsWords.value;
  const without = unset === undefined ? text.nothingSet : shown(unset);
  return (
    <Table
      label={label}
      rows={rows}
      keyOf={({ key }) => key}
      columns={[
        { head: text.setting, cell: ({ key }) => <code>{key}</code> },
        { head: text.before, cell: ({ from }) => (from === undefined ? <span class="hint" dir="auto">{without}</span> : <del dir="auto">{shown(from)}</del>) },
        { head: text.after, cell: ({ to }) => <ins dir="auto">{to === undefined || to === null ? without : shown(to)}</ins> },
      ]}
    />
  );
}

/** The result of a dry run. */
export function Preview({ outcome, unset }: { outcome: Outcome; unset?: unknown }): JSX.Element {
  const text = settingsWords.value;
  if (outcome.changed.length === 0) return <p class="empty" role="status">{text.previewNothing}</p>;
  return (
    <div class="preview" role="status">
      <h3>{text.preview}</h3>
      <ChangedTable label={text.preview} rows={outcome.changed} unset={unset} />
      {outcome.live.length > 0 && <p>{text.previewLive}{words.value.colon}{outcome.live.map((key) => <code key={key}>{key} </code>)}</p>}
      {outcome.restartRequired.length > 0 && <p class="warn">{text.previewRestart}{words.value.colon}{outcome.restartRequired.map((key) => <code key={key}>{key} </code>)}</p>}
    </div>
  );
}
