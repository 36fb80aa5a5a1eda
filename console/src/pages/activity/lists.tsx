/** Turns and errors in tables, on more than one page. */

import type { JSX } from "preact";
import type { ErrorGroup as ErrorRow, TurnRow } from "../../link/client.ts";
import { may } from "../../routes.ts";
import { withQuery } from "../../state/data.ts";
import { type Column, NOTHING, Table } from "../../ui/table.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { duration, money, when } from "../../words/format.ts";
import { language } from "../../words/index.ts";

export type { ErrorRow, TurnRow };

export const outcomeOf = (turn: Pick<TurnRow, "outcome" | "parkedAt">) => turn.outcome ?? (turn.parkedAt === undefined ? "running" : "parked");

/** The outcome in words; a colour never says it alone. */
export function Outcome({ outcome }: { outcome: string }): JSX.Element {
  return <span class={`outcome outcome-${outcome}`}>{activityWords.value.outcomes[outcome] ?? outcome}</span>;
}

export function TurnTable({ label, rows, tenant }: { label: string; rows: readonly TurnRow[]; tenant: string | undefined }): JSX.Element {
  const text = activityWords.value;
  const columns: Column<TurnRow>[] = [
    { head: text.time, cell: ({ acceptedAt }) => <time>{when(acceptedAt, language.value, Date.now())}</time> },
    { head: text.turn, cell: ({ turnId }) => <a href={withQuery(`/activity/turns/${turnId}`, { tenant })}><code>{turnId}</code></a> },
    { head: text.outcome, cell: (turn) => <><Outcome outcome={outcomeOf(turn)} /> {turn.nodeId !== undefined && <span class="hint">{text.node} {turn.nodeId}</span>}</> },
    { head: text.model, cell: ({ model }) => model ?? NOTHING },
    { head: text.duration, isFigure: true, cell: ({ acceptedAt, endedAt }) => duration((endedAt ?? Date.now()) - acceptedAt) },
    { head: text.inOut, isFigure: true, cell: ({ usage }) => (usage === undefined ? NOTHING : `${usage.inputTokens} → ${usage.outputTokens}`) },
    { head: text.price, isFigure: true, cell: ({ price }) => (price === undefined ? NOTHING : money(price)) },
  ];
  return <Table label={label} columns={columns} rows={rows} keyOf={({ turnId }) => turnId} />;
}

/** Where the entries of an error are: those of its last turn, else of its last request, else with its event. */
const entriesOf = (error: ErrorRow, tenant: string | undefined) =>
  withQuery("/activity/logs", {
    tenant,
    ...(error.lastTurnId === undefined ? (error.lastRequestId === undefined ? { event: error.event } : { request: error.lastRequestId }) : { turn: error.lastTurnId }),
  });

export function ErrorTable({ label, rows, tenant }: { label: string; rows: readonly ErrorRow[]; tenant: string | undefined }): JSX.Element {
  const text = activityWords.value;
  return (
    <Table
      label={label}
      rows={rows}
      keyOf={(error) => `${error.lastNumber} ${error.code} ${error.event} ${error.where}`}
      columns={[
        { head: text.code, cell: ({ code }) => <code>{code}</code> },
        { head: text.event, cell: ({ event, where, nodes }) => <><code>{event}</code> <span class="hint">{where}{nodes !== undefined && ` · ${text.node} ${nodes.join(", ")}`}</span></> },
        { head: text.count, isFigure: true, cell: ({ count }) => count.toLocaleString(language.value) },
        { head: text.last, cell: ({ lastAt }) => <time>{when(lastAt, language.value, Date.now())}</time> },
        {
          head: text.entries,
          cell: (error) => (
            <span class="links">
              <a href={entriesOf(error, tenant)}>{text.entries}</a>
              {error.lastTurnId !== undefined && may("sessions:read") && <a href={withQuery(`/activity/turns/${error.lastTurnId}`, { tenant })}>{text.turn}</a>}
            </span>
          ),
        },
      ]}
    />
  );
}
