import type { UsageView as UsageRow } from "../../link/client.ts";
import type { JSX } from "preact";
import { useData, withQuery } from "../../state/data.ts";
import { Empty, Shown } from "../../ui/shown.tsx";
import { largest, type Series } from "../../ui/series.ts";
import { Stack } from "../../ui/stack.tsx";
import { money, short } from "../../words/format.ts";
import { language } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";

export type { UsageRow };

export type By = "model" | "user" | "image" | "container" | "session" | "key" | "driver";
export const FIELDS: Record<By, "model" | "userId" | "imageId" | "containerId" | "sessionId" | "keyId" | "driver"> = { model: "model", user: "userId", image: "imageId", container: "containerId", session: "sessionId", key: "keyId", driver: "driver" };
export const DAYS: Record<string, number> = { "24h": 1, "7d": 7, "30d": 30, "90d": 90, "365d": 365 };
const [DAY_MS, HOUR_MS] = [86_400_000, 3_600_000];

/** The first moment of a span that ends now, at the beginning of a day or an hour in UTC. */
export function sinceOf(span: string, now: number): string {
  const at = span === "24h" ? Math.floor(now / HOUR_MS) * HOUR_MS - 23 * HOUR_MS : Math.floor(now / DAY_MS) * DAY_MS - ((DAYS[span] ?? 30) - 1) * DAY_MS;
  return new Date(at).toISOString().slice(0, span === "24h" ? 16 : 10);
}

/** The names of all steps of a span, as the server names them. */
export function stepsOf(span: string, now: number): string[] {
  const length = span === "24h" ? HOUR_MS : DAY_MS;
  const first = Date.parse(span === "24h" ? `${sinceOf(span, now)}Z` : sinceOf(span, now));
  const steps = [];
  for (let at = first; at <= now; at += length) steps.push(span === "24h" ? `${new Date(at).toISOString().slice(0, 16)}Z` : new Date(at).toISOString().slice(0, 10));
  return steps;
}

interface Props {
  title: string;
  tenant: string | undefined;
  by: By;
  span: string;
  names?: Map<string, string>;
  /** Only this one. */
  only?: string;
}

/** Money over time, stacked; the tokens, while nothing has cost anything. The server adds up. */
export function UsagePlot({ title, tenant, by, span, names, only }: Props): JSX.Element {
  const step = span === "24h" ? "hour" : "day";
  const now = Date.now();
  const usage = useData<{ items: UsageRow[] }>(withQuery("/v1/usage", { tenant, by: `${step},${by}`, since: sinceOf(span, now) }));
  return (
    <Shown of={usage}>
      {({ items }) => {
        const steps = stepsOf(span, now);
        const isFree = items.every(({ price }) => price === 0);
        const unit = isFree ? peopleWords.value.tokens : peopleWords.value.price;
        const byName = new Map<string, number[]>();
        for (const row of items) {
          const id = String(row[FIELDS[by]] ?? "—");
          const place = steps.indexOf(row[step] ?? "");
          if (place < 0 || (only !== undefined && id !== only)) continue;
          const name = names?.get(id) ?? id;
          const values = byName.get(name) ?? steps.map(() => 0);
          values[place]! += isFree ? row.inputTokens + row.outputTokens : row.price;
          byName.set(name, values);
        }
        const series: Series[] = largest([...byName].map(([name, values]) => ({ name: only === undefined ? name : unit, values })), peopleWords.value.others);
        return series.length === 0 ? <Empty>{peopleWords.value.noEntries}</Empty> : <Stack title={isFree ? `${title} · ${unit}` : title} steps={steps} series={series} format={isFree ? (count) => short(count, language.value) : money} />;
      }}
    </Shown>
  );
}
