import type { JSX } from "preact";
import { identity } from "../../link/who.ts";
import { may, type PageProps } from "../../routes.ts";
import { useData, withQuery } from "../../state/data.ts";
import "../../style/people.css";
import { Money } from "../../ui/money.tsx";
import { Page } from "../../ui/page.tsx";
import { Figures } from "../../ui/parts.tsx";
import { Shown } from "../../ui/shown.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { short } from "../../words/format.ts";
import { gap, language, words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";
import { useKeyNames, useNames } from "../people/people.ts";
import { TenantChoice } from "../../ui/tenant.tsx";
import { type By, DAYS, FIELDS, sinceOf, UsagePlot, type UsageRow } from "./usage_plot.tsx";

/** Usage and money: figures, plot and table of one question. The server adds up, the page only shows. */
export default function Usage({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const by = (query["by"] ?? "") in FIELDS ? (query["by"] as By) : "model";
  const span = (query["since"] ?? "") in DAYS ? query["since"]! : "30d";
  const since = sinceOf(span, Date.now());
  const total = useData<{ items: UsageRow[] }>(withQuery("/v1/usage", { tenant, since }));
  const table = useData<{ items: UsageRow[] }>(withQuery("/v1/usage", { tenant, since, by }));
  const keys = useKeyNames(tenant, by === "key");
  const users = useNames(tenant);
  const names = by === "key" ? keys : by === "user" ? users : undefined;
  const text = peopleWords.value;
  const lang = language.value;
  const change = (more: Record<string, string>) => go(withQuery("/usage", { tenant, by, since: span, ...more }));
  const count = (value: number) => <span title={value.toLocaleString(lang)}>{short(value, lang)}</span>;
  const name = (row: UsageRow) => {
    const id = String(row[FIELDS[by]] ?? "—");
    if (by === "user" && may("tenants:admin")) return <a href={withQuery(`/people/${id}`, { tenant })}><bdi>{users.get(id) ?? id}</bdi></a>;
    if (by === "key" && id !== "—") return <bdi>{keys.get(id) ?? id}</bdi>;
    if (by === "image" && id !== "—") return <a href={withQuery(`/agents/${id}`, { tenant })}><code>{id}</code></a>;
    if (by === "session" && id !== "—" && tenant === undefined) return <a href={`/c/${id}`}><code>{id}</code></a>;
    return <code dir="auto">{id}</code>;
  };
  const columns: Column<UsageRow>[] = [
    { head: text.byNames[by]!, cell: name },
    { head: text.calls, isFigure: true, cell: ({ calls }) => calls.toLocaleString(lang) },
    { head: text.tokensIn, isFigure: true, cell: ({ inputTokens }) => count(inputTokens) },
    { head: text.tokensOut, isFigure: true, cell: ({ outputTokens }) => count(outputTokens) },
    ...(may("system:admin") ? [{ head: text.margin, isFigure: true, cell: ({ margin }: UsageRow) => <Money nano={margin ?? 0} /> }] : []),
    { head: text.price, isFigure: true, cell: ({ price, estimatedCalls }) => <Money nano={price} isEstimate={estimatedCalls > 0} /> },
  ];
  return (
    <Page
      title={words.value.pages.usage}
      tools={
        <>
          <TenantChoice whole={identity.value?.tenant ?? ""} go={go} />
          <select aria-label={text.by} value={by} onChange={(event) => change({ by: event.currentTarget.value })}>
            {Object.keys(FIELDS).map((one) => <option key={one} value={one}>{text.byNames[one]}</option>)}
          </select>
          <select aria-label={text.since} value={span} onChange={(event) => change({ since: event.currentTarget.value })}>
            {Object.keys(DAYS).map((one) => <option key={one} value={one}>{text.spans[one]}</option>)}
          </select>
          <a class="btn" href={withQuery("/v1/usage", { tenant, by, since, format: "csv" })} download={`usage-${by}-${since}.csv`}>{text.csv}</a>
        </>
      }
    >
      <Shown of={total}>
        {({ items: [sum] }) =>
          sum !== undefined && (
            <>
              <Figures
                of={[
                  [text.spent, <Money key="p" nano={sum.price} isEstimate={sum.estimatedCalls > 0} />],
                  ...(sum.margin === undefined ? [] : [[text.margin, <Money key="m" nano={sum.margin} />] as const]),
                  [text.calls, sum.calls.toLocaleString(lang)],
                  [text.tokensIn, count(sum.inputTokens)],
                  [text.tokensOut, count(sum.outputTokens)],
                ]}
              />
              {sum.estimatedCalls > 0 && <p class="hint">{text.estimated(sum.estimatedCalls)}</p>}
              {sum.unpricedCalls > 0 && (
                <p class="warn">
                  {text.unpriced(sum.unpricedCalls)}{gap.value}{may("config:read") && <>{text.setPrice} <a href="/settings?q=billing.prices"><code>billing.prices</code></a></>}
                </p>
              )}
            </>
          )
        }
      </Shown>
      <UsagePlot title={text.byNames[by]!} tenant={tenant} by={by} span={span} names={names} />
      <Shown of={table}>
        {({ items }) => items.length > 0 && <Table label={words.value.pages.usage} rows={items.toSorted((a, b) => b.price - a.price)} keyOf={(row) => String(row[FIELDS[by]])} columns={columns} />}
      </Shown>
      <p class="hint">{text.daysUtc}</p>
    </Page>
  );
}
