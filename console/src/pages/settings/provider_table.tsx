import type { JSX } from "preact";
import type { ProviderHealth as ProviderRow } from "../../link/client.ts";
import { NOTHING, Table } from "../../ui/table.tsx";
import { language } from "../../words/index.ts";
import { settingsWords } from "../../words/settings/index.ts";
import { stamp } from "../../words/measure.ts";

export type { ProviderRow };

/** The model providers: whether each answers, what failed last, and when it is tried again. */
export function ProviderTable({ rows }: { rows: readonly ProviderRow[] }): JSX.Element {
  const text = settingsWords.value;
  return (
    <Table
      label={text.providers}
      rows={rows}
      keyOf={({ name }) => name}
      columns={[
        { head: text.provider, cell: ({ name, role }) => <><code>{name}</code> {role !== undefined && <span class="chip">{text.roles[role]}</span>}</> },
        { head: text.model, cell: ({ name, defaultModel, driver, baseUrl }) => <><code>{defaultModel}</code> <span class="hint">{[driver === name ? undefined : driver, baseUrl].filter(Boolean).join(" · ")}</span></> },
        { head: text.state, cell: (row) => <State row={row} /> },
        { head: text.lastError, cell: ({ lastError }) => (lastError === undefined ? NOTHING : <><code>{lastError}</code> <span class="hint">{text.providerErrors[lastError] ?? ""}</span></>) },
        { head: text.failures, isFigure: true, cell: ({ calls, failures, consecutiveFailures }) => (calls === undefined ? consecutiveFailures : `${failures ?? 0} / ${calls}`) },
      ]}
    />
  );
}

function State({ row }: { row: ProviderRow }): JSX.Element {
  const text = settingsWords.value;
  const grade = row.state === "ok" || row.state === "unknown" ? "ok" : row.state === "limited" ? "warn" : "fail";
  return (
    <span class={`check-${grade}`}>
      <span class="mark" aria-hidden="true" />
      {text.states[row.state]}
      {row.since !== undefined && <span class="hint"> {text.since(stamp(row.since, language.value))}</span>}
      {row.retryAt !== undefined && grade !== "ok" && <span class="hint"> {text.retryAt(stamp(row.retryAt, language.value))}</span>}
    </span>
  );
}
