import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { EntryView as Entry, Reconciliation as Report } from "../../link/client.ts";
import { sendFile } from "../../link/files.ts";
import { identity } from "../../link/who.ts";
import type { PageProps } from "../../routes.ts";
import { useList, withQuery } from "../../state/data.ts";
import "../../style/people.css";
import { FileInput } from "../../ui/file_input.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Money } from "../../ui/money.tsx";
import { Page } from "../../ui/page.tsx";
import { Section } from "../../ui/parts.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { language, words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";
import { useNames } from "../people/people.ts";
import { TenantChoice } from "../../ui/tenant.tsx";
import { DAYS, sinceOf } from "./usage_plot.tsx";

interface Tokens {
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
}

const sumOf = (tokens: Tokens) => tokens.inputTokens + tokens.outputTokens + (tokens.cacheReadTokens ?? 0) + (tokens.cacheWriteTokens ?? 0);

/** The entries of the ledger, and how they compare with the provider's bill. */
export default function Ledger({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const span = (query["since"] ?? "") in DAYS ? query["since"]! : "7d";
  const entries = useList<Entry>(withQuery("/v1/usage/entries", { tenant, order: "newest", since: sinceOf(span, Date.now()) }));
  const names = useNames(tenant);
  const text = peopleWords.value;
  const lang = language.value;
  return (
    <Page
      title={words.value.pages.ledger}
      tools={
        <>
          <TenantChoice whole={identity.value?.tenant ?? ""} go={go} />
          <select aria-label={text.since} value={span} onChange={(event) => go(withQuery("/usage/ledger", { tenant, since: event.currentTarget.value }))}>
            {Object.keys(DAYS).map((one) => <option key={one} value={one}>{text.spans[one]}</option>)}
          </select>
        </>
      }
    >
      <Shown of={entries}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty>{text.noEntries}</Empty>
          ) : (
            <Table
              label={words.value.pages.ledger}
              rows={rows}
              keyOf={({ number }) => String(number)}
              columns={[
                { head: text.timeUtc, cell: ({ at }) => new Date(at).toISOString().slice(0, 19).replace("T", " ") },
                { head: text.user, cell: ({ userId }) => <bdi>{userId === undefined ? "—" : (names.get(userId) ?? userId)}</bdi> },
                { head: text.model, cell: ({ driver, model }) => <code>{driver}/{model}</code> },
                { head: text.tokensIn, isFigure: true, cell: ({ usage }) => usage.inputTokens.toLocaleString(lang) },
                { head: text.tokensOut, isFigure: true, cell: ({ usage }) => usage.outputTokens.toLocaleString(lang) },
                { head: text.price, isFigure: true, cell: ({ price, usage }) => (price === undefined ? <span class="warn">—</span> : <Money nano={price} isEstimate={usage.estimated} />) },
                { head: text.actions, cell: ({ turnId }) => <span class="row-tools"><a href={withQuery(`/activity/turns/${turnId}`, { tenant })}>{words.value.pages.turn}</a></span> },
              ]}
            />
          )
        }
      </Shown>
      <More more={entries.more} />
      <Bill tenant={tenant} />
    </Page>
  );
}

function Bill({ tenant }: { tenant: string | undefined }): JSX.Element {
  const [file, setFile] = useState<File | undefined>(undefined);
  const [report, setReport] = useState<Report | undefined>(undefined);
  const text = peopleWords.value;
  const lang = language.value;
  async function compare(): Promise<void> {
    setReport(await sendFile<Report>("POST", withQuery("/v1/usage/reconcile", { tenant }), file ?? new Blob()));
  }
  return (
    <Section title={text.bill}>
      <Form submit={text.check} disabled={file === undefined} onSubmit={compare}>
        <Field label={text.file} hint={text.billHint}>
          {(control) => <FileInput control={control} accept=".csv,.json,text/csv,application/json" onFiles={([first]) => setFile(first)} />}
        </Field>
      </Form>
      {report !== undefined && (
        <div role="status">
          <p class={report.allExplained ? undefined : "problem"}>{report.allExplained ? text.billAll : text.billNot}</p>
          <Table
            label={text.bill}
            rows={report.groups}
            keyOf={({ day, model }) => `${day} ${model}`}
            columns={[
              { head: text.dayUtc, cell: ({ day }) => day },
              { head: text.model, cell: ({ model }) => <code>{model}</code> },
              { head: text.provider, isFigure: true, cell: ({ provider }) => sumOf(provider).toLocaleString(lang) },
              { head: words.value.pages.ledger, isFigure: true, cell: ({ ledger }) => sumOf(ledger).toLocaleString(lang) },
              { head: text.difference, isFigure: true, cell: ({ provider, ledger }) => (sumOf(ledger) - sumOf(provider)).toLocaleString(lang) },
              { head: text.verdict, cell: ({ verdict, explained }) => <span class={explained ? undefined : "problem"}>{verdict}</span> },
              { head: text.reasons, cell: ({ reasons }) => (reasons ?? []).join("; ") },
            ]}
          />
        </div>
      )}
    </Section>
  );
}
