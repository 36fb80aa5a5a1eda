import type { JSX } from "preact";
import type { PageProps } from "../../routes.ts";
import { useList, withQuery } from "../../state/data.ts";
import "../../style/activity.css";
import { Page } from "../../ui/page.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { words } from "../../words/index.ts";
import { type TurnRow, TurnTable } from "./lists.tsx";

const PAGE = 50;

/** Turns of a day: the newest, the slowest, those that failed. */
export default function Turns({ query, go }: PageProps): JSX.Element {
  const { tenant, order, outcome, session } = query;
  const turns = useList<TurnRow>(withQuery("/v1/turns", { tenant, order, outcome, session, limit: PAGE }));
  const text = activityWords.value;
  const here = (more: Record<string, string | undefined>) => withQuery("/activity/turns", { tenant, session, ...more });
  const views = [
    [text.newest, here({}), order !== "slowest" && outcome === undefined],
    [text.slowest, here({ order: "slowest" }), order === "slowest"],
    [text.failedTurns, here({ outcome: "failed" }), outcome === "failed"],
    [text.runningTurns, here({ outcome: "running" }), outcome === "running"],
    [text.waiting, here({ outcome: "parked" }), outcome === "parked"],
  ] as const;
  const isNarrowed = outcome !== undefined || session !== undefined;
  return (
    <Page title={words.value.pages.turns} tools={<TenantChoice whole={text.ofTenant} go={go} />}>
      <nav class="segments" aria-label={text.filter}>
        {views.map(([name, href, isHere]) => <a key={href} href={href} aria-current={isHere ? "true" : undefined}>{name}</a>)}
      </nav>
      {session !== undefined && <p class="hint">{text.conversation} <code>{session}</code> · <a href={here({ session: undefined, order, outcome })}>{text.clearFilters}</a></p>}
      <Shown of={turns}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty action={<a class="btn" href={isNarrowed ? withQuery("/activity/turns", { tenant }) : "/"}>{isNarrowed ? text.clearFilters : words.value.newChat}</a>}>
              {isNarrowed ? text.turnsNothingLike : text.turnsNothing}
            </Empty>
          ) : (
            <TurnTable label={words.value.pages.turns} rows={rows} tenant={tenant} />
          )
        }
      </Shown>
      <More more={turns.more} />
    </Page>
  );
}
