import type { MetricSeries as Series, UsageRow as Used, TenantMetrics } from "../../link/client.ts";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { may, type PageProps } from "../../routes.ts";
import { useData, withQuery } from "../../state/data.ts";
import { useRefresh } from "../../state/refresh.ts";
import "../../style/activity.css";
import { Page } from "../../ui/page.tsx";
import { Figures } from "../../ui/parts.tsx";
import { Plot, type PlotLine } from "../../ui/plot.tsx";
import { Empty, Shown } from "../../ui/shown.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { duration, money } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { bytes, stamp } from "../../words/measure.ts";

const HOURS = [1, 6, 24];
const REFRESH_MS = 60_000;
const HOUR_MS = 3_600_000;

/** The course of a day, of the whole server; others see the numbers of their tenant. */
export default function Metrics({ query, go }: PageProps): JSX.Element {
  const text = activityWords.value;
  const hours = Number(query["hours"] ?? 1);
  const ofServer = may("system:admin") && query["tenant"] === undefined;
  return (
    <Page title={words.value.pages.metrics} tools={<TenantChoice whole={text.ofServer} go={go} />}>
      {ofServer ? <ServerCourse hours={hours} /> : <TenantNumbers tenant={query["tenant"]} hours={hours} />}
    </Page>
  );
}

function ServerCourse({ hours }: { hours: number }): JSX.Element {
  const text = activityWords.value;
  // As of now; later samples are added, and those that became too old are left out when it is drawn.
  const since = useMemo(() => Date.now() - hours * HOUR_MS, [hours]);
  const series = useData<Series>(withQuery("/v1/metrics/series", { since }));
  useRefresh(series.reload, REFRESH_MS);
  return (
    <>
      <nav class="segments" aria-label={text.time}>
        {HOURS.map((count) => <a key={count} href={`/activity/metrics?hours=${count}`} aria-current={count === hours ? "true" : undefined}>{text.hour(count)}</a>)}
      </nav>
      <Shown of={series}>
        {(shown) => (
          <>
            <p class="hint">{text.recordedSince(stamp(shown.since, language.value))}</p>
            {shown.at.length === 0 ? <Empty>{text.noSamples}</Empty> : <Plots series={latest(shown, hours)} />}
          </>
        )}
      </Shown>
    </>
  );
}

/** The samples of the last hours. */
function latest(series: Series, hours: number): Series {
  const from = series.at.findIndex((at) => at >= (series.at.at(-1) as number) - hours * HOUR_MS);
  const columns = Object.fromEntries(Object.entries(series.columns).map(([name, values]) => [name, values.slice(from)])) as unknown as Series["columns"];
  return { ...series, at: series.at.slice(from), columns };
}

function Plots({ series }: { series: Series }): JSX.Element {
  const text = activityWords.value;
  const number = (value: number) => value.toLocaleString(language.value, { maximumFractionDigits: 1 });
  const ms = (value: number) => duration(value < 10 ? Math.round(value * 10) / 10 : Math.round(value));
  const line = (name: string, column: keyof Series["columns"]): PlotLine => ({ name, values: series.columns[column] });
  const plots: [string, (value: number) => string, PlotLine[]][] = [
    [text.graph.turns, number, [line(text.outcomes["completed"] ?? "", "turnsCompleted"), line(text.outcomes["failed"] ?? "", "turnsFailed"), line(text.outcomes["interrupted"] ?? "", "turnsInterrupted")]],
    [text.graph.live, number, [line(text.outcomes["running"] ?? "", "turnsRunning"), line(text.agents, "agents"), line(text.connections, "connections")]],
    [text.graph.firstToken, ms, [line(text.median, "firstTokenP50"), line(text.worst, "firstTokenP95")]],
    [text.graph.stages, ms, [line(text.queueTime, "queueP50"), line(text.modelFirst, "modelFirstTokenP50"), line(text.modelAnswer, "modelCallP50"), line(text.tools, "toolP50")]],
    [text.graph.storing, ms, [line(text.storing, "commitP95"), line(text.sending, "fanoutP95")]],
    [text.graph.loop, ms, [line(text.most, "loopLagMs")]],
    [text.graph.queues, number, [line(text.queued, "messagesWaiting"), line(text.journal, "journalWaiting"), line(text.databaseFile, "databaseWaiting")]],
    [text.graph.memory, bytes, [line(text.memoryOf, "rssBytes")]],
    [text.graph.database, bytes, [line(text.databaseFile, "databaseBytes"), line(text.databaseLog, "walBytes")]],
    [text.graph.disk, bytes, [line(text.graph.disk, "diskFreeBytes")]],
  ];
  return (
    <div class="plots">
      {plots.map(([title, format, lines]) => <Plot key={title} title={title} at={series.at} lines={lines} format={format} isBinary={format === bytes} />)}
    </div>
  );
}

/** A key of the operator that is bound to nobody sees the server as well: then the reply says so. */
function TenantNumbers({ tenant, hours }: { tenant: string | undefined; hours: number }): JSX.Element {
  const text = activityWords.value;
  const numbers = useData<TenantMetrics | { scope: "server" }>(withQuery("/v1/metrics", { tenant }));
  useRefresh(numbers.reload, REFRESH_MS);
  const count = (value: number) => value.toLocaleString(language.value);
  const used = (name: string, row: Used) =>
    [name, <>{money(row.price)} <span class="hint">{count(row.calls)} · {count(row.inputTokens)} → {count(row.outputTokens)}</span></>] as const;
  return (
    <Shown of={numbers}>
      {(now) => now.scope === "server" ? <ServerCourse hours={hours} /> : (
        <>
          <Figures of={[[text.running, count(now.turnsRunning)], [text.waiting, count(now.messagesWaiting)], [text.connections, count(now.connections)]]} />
          <Figures of={[used(text.spentToday, now.today), used(text.month, now.month), used(text.total, now.total)]} />
        </>
      )}
    </Shown>
  );
}
