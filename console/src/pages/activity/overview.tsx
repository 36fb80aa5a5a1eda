import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { ServerStatus } from "../../link/client.ts";
import { may, type PageProps } from "../../routes.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import { useRefresh } from "../../state/refresh.ts";
import "../../style/activity.css";
import { Page } from "../../ui/page.tsx";
import { Figures, Section } from "../../ui/parts.tsx";
import { Empty, Shown } from "../../ui/shown.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { money } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { span } from "../../words/measure.ts";
import { ProviderTable, type ProviderRow } from "../settings/provider_table.tsx";
import { ErrorTable, type ErrorRow, type TurnRow, TurnTable } from "./lists.tsx";

const REFRESH_MS = 10_000;
const DAY_MS = 86_400_000;

/** Midnight, UTC. */
const today = () => new Date().toISOString().slice(0, 10);

/** Is it well? */
export default function Overview({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const inTenant = (path: string, more: Record<string, string | number> = {}) => withQuery(path, { tenant, ...more });
  const status = useData<ServerStatus>("/v1/status?nodes=all");
  const providers = useList<ProviderRow>("/v1/providers?limit=1000");
  const running = useList<TurnRow>(may("sessions:read") ? inTenant("/v1/turns", { outcome: "running", limit: 20 }) : undefined);
  const slowest = useList<TurnRow>(may("sessions:read") ? inTenant("/v1/turns", { order: "slowest", limit: 5 }) : undefined);
  // A day before the page was opened: another address would be read as another list.
  const since = useMemo(() => Date.now() - DAY_MS, []);
  const errors = useList<ErrorRow>(may("logs:read") ? inTenant("/v1/errors", { since, limit: 20, nodes: "all" }) : undefined);
  const spent = useData<{ items: { price: number; calls: number }[] }>(may("usage:read") ? inTenant("/v1/usage", { since: today() }) : undefined);
  useRefresh(() => [status, providers, running, slowest, errors, spent].map(({ reload }) => reload()), REFRESH_MS);
  const text = activityWords.value;
  return (
    <Page title={words.value.pages.activity} tools={<TenantChoice whole={text.ofTenant} go={go} />}>
      <Shown of={status}>{(now) => <Health now={now} />}</Shown>
      {spent.data !== undefined && (
        <Figures
          of={[
            [text.spentToday, <a key="spent" href={inTenant("/usage")}>{money(spent.data.items[0]?.price ?? 0)}</a>],
            [text.modelCalls, (spent.data.items[0]?.calls ?? 0).toLocaleString(language.value)],
            [text.running, (running.data?.length ?? 0).toLocaleString(language.value)],
          ]}
        />
      )}
      <Section title={text.providers}>
        <Shown of={providers}>{(rows) => <ProviderTable rows={rows} />}</Shown>
      </Section>
      {may("sessions:read") && (
        <Section title={text.running}>
          <Shown of={running}>{(rows) => (rows.length === 0 ? <p class="empty">{text.noTurnsRunning}</p> : <TurnTable label={text.running} rows={rows} tenant={tenant} />)}</Shown>
        </Section>
      )}
      {may("logs:read") && (
        <Section title={text.errorsOfDay}>
          <Shown of={errors}>{(rows) => (rows.length === 0 ? <p class="empty">{text.errorsNone}</p> : <ErrorTable label={text.errorsOfDay} rows={rows} tenant={tenant} />)}</Shown>
        </Section>
      )}
      {may("sessions:read") && (
        <Section title={text.slowestOfDay}>
          <Shown of={slowest}>
            {(rows) => (rows.length === 0 ? <Empty action={<a class="btn" href="/">{words.value.newChat}</a>}>{text.turnsNothing}</Empty> : <TurnTable label={text.slowestOfDay} rows={rows} tenant={tenant} />)}
          </Shown>
        </Section>
      )}
    </Page>
  );
}

const FIGURE = /[\d.]+ (?:ms|[MG]iB)/;

/** The server's sentence; in another language a sentence of that language with its figure, or with the details of what is not well. */
function CheckText({ name, status, message }: ServerStatus["checks"][number]): JSX.Element {
  const own = activityWords.value.checkTexts[`${name.split(":")[0]}.${status}`];
  if (own === undefined) return <span lang="en">{message}</span>;
  const figure = FIGURE.exec(message)?.[0];
  if (figure !== undefined) return <>{own} <span class="hint">{figure}</span></>;
  return <>{own} {status !== "ok" && <span class="hint" lang="en">{message}</span>}</>;
}

/** The sentences of the server's own checks: the worst first. */
function Health({ now }: { now: ServerStatus }): JSX.Element {
  const text = activityWords.value;
  const order = ["fail", "warn", "ok"];
  const checks = now.checks.toSorted((a, b) => order.indexOf(a.status) - order.indexOf(b.status));
  return (
    <section class="health" aria-label={text.checks[now.status]}>
      <p class={`health-sum health-${now.status}`}><span class="mark" aria-hidden="true" />{text.checks[now.status]}</p>
      <ul class="checks">
        {checks.map(({ name, status, message, nodeId }) => (
          <li key={`${nodeId} ${name}`} class={`check-${status}`}>
            <span class="mark" aria-hidden="true" />
            <span class="unseen">{text.checks[status]}</span>
            {nodeId !== undefined && <>{text.node} {nodeId} </>}<code>{name}</code> <CheckText name={name} status={status} message={message} />
          </li>
        ))}
      </ul>
      <p class="hint">AgentVM {now.version} · {text.uptime(span(now.uptimeSeconds, language.value))}</p>
    </section>
  );
}
