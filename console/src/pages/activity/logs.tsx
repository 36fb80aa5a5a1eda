import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { LogEntries } from "../../link/client.ts";
import { may, type PageProps } from "../../routes.ts";
import { useList, withQuery } from "../../state/data.ts";
import { type LogEntry, ROWS_MAX, Tail } from "../../state/tail.ts";
import "../../style/activity.css";
import { Field } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { JsonTree } from "../../ui/parts.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { language, words } from "../../words/index.ts";
import { stamp } from "../../words/measure.ts";

const PAGE = 100;
const FILTERS = ["text", "event", "turn", "request", "session", "node"] as const;
const LEVELS = ["debug", "info", "warning", "error", "critical"];

/** The log: a list, or its end as it grows. The filters are in the address. */
export default function Logs({ query, go }: PageProps): JSX.Element {
  const text = activityWords.value;
  const filters: Record<string, string | undefined> = { tenant: query["tenant"], level: query["level"], ...Object.fromEntries(FILTERS.map((name) => [name, query[name]])) };
  const isFollowing = query["follow"] !== undefined;
  const { node, ...asked } = filters;
  // A stream is that of the node which answers; a list has the entries of all.
  const path = withQuery("/v1/logs", isFollowing ? asked : { ...asked, nodes: node ?? "all" });
  const here = (more: Record<string, string | undefined>) => withQuery("/activity/logs", { ...filters, follow: isFollowing ? "true" : undefined, ...more });
  return (
    <Page title={words.value.pages.logs} tools={<TenantChoice whole={text.ofServer} go={go} />}>
      <FilterForm query={query} onChange={(more) => go(here(more))} />
      <label class="check">
        <input type="checkbox" checked={isFollowing} onChange={(event) => go(here({ follow: event.currentTarget.checked ? "true" : undefined }))} />
        {text.follow}
      </label>
      {isFollowing ? <Following key={path} path={path} here={here} /> : <Listed path={path} here={here} isFiltered={["level", ...FILTERS].some((name) => (query[name] ?? "") !== "")} />}
    </Page>
  );
}

type Here = (more: Record<string, string | undefined>) => string;
const NO_FILTERS = Object.fromEntries(FILTERS.map((name) => [name, undefined]));

function Listed({ path, here, isFiltered }: { path: string; here: Here; isFiltered: boolean }): JSX.Element {
  const entries = useList<LogEntry, LogEntries>(withQuery(path, { limit: PAGE }));
  const text = activityWords.value;
  return (
    <>
      {entries.page?.silentNodes?.map((node) => <p key={node.nodeId} class="warn" role="status">{text.nodeSilent(node.name, node.nodeId)} <span class="hint" lang="en">{node.error}</span></p>)}
      <Shown of={entries}>
        {(rows) =>
          rows.length > 0 ? (
            <Entries rows={rows} here={here} />
          ) : isFiltered ? (
            <Empty action={<a class="btn" href={here({ ...NO_FILTERS, level: undefined })}>{text.lower}</a>}>{text.logNothing}</Empty>
          ) : (
            <Empty>{text.logEmpty}</Empty>
          )}
      </Shown>
      <More more={entries.more} />
    </>
  );
}

function Following({ path, here }: { path: string; here: Here }): JSX.Element {
  const tail = useMemo(() => new Tail(path), [path]);
  useEffect(() => () => tail.stop(), [tail]);
  const text = activityWords.value;
  const rows = tail.rows.value;
  return (
    <>
      <p class="tail-state" role="status">
        {tail.state.value === "following" ? <><span class="dot" /> {text.following}</> : tail.state.value === "waiting" ? text.followEnded : words.value.loading}
        {tail.problem.value !== "" && <span class="hint" lang="en"> {tail.problem.value}</span>}
        {rows.length >= ROWS_MAX && <span class="hint"> {text.tailNewest(ROWS_MAX.toLocaleString(language.value))}</span>}
      </p>
      {rows.length === 0 ? <p class="empty">{text.logNothingFollow}</p> : <Entries rows={rows} here={here} />}
    </>
  );
}

function FilterForm({ query, onChange }: { query: PageProps["query"]; onChange: (more: Record<string, string | undefined>) => void }): JSX.Element {
  const text = activityWords.value;
  const labels = { text: text.text, event: text.event, turn: text.turnId, request: text.request, session: text.sessionFilter, node: text.nodeFilter };
  const given = (name: string) => query[name] ?? "";
  return (
    <form
      class="filters"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        onChange(Object.fromEntries([...FILTERS, "level"].map((name) => [name, String(form.get(name) ?? "").trim() || undefined])));
      }}
    >
      <Field label={text.level}>
        {(control) => (
          <select {...control} name="level" value={given("level")} onChange={(event) => event.currentTarget.form?.requestSubmit()}>
            <option value="">{text.allTurns}</option>
            {LEVELS.map((level) => <option key={level} value={level}>{text.levels[level]}</option>)}
          </select>
        )}
      </Field>
      {FILTERS.map((name) => (
        <Field key={name} label={labels[name]}>
          {(control) => <input {...control} key={given(name)} type="search" name={name} defaultValue={given(name)} maxLength={200} />}
        </Field>
      ))}
      <button type="submit" class="btn">{text.filter}</button>
    </form>
  );
}

const LOST = new Set(["log_entries_lost", "log_entries_suppressed"]);

/** The entries, the newest first; the facts are folded. */
function Entries({ rows, here }: { rows: readonly LogEntry[]; here: Here }): JSX.Element {
  return <ol class="entries">{rows.map((entry) => <Entry key={`${entry.nodeId} ${entry.number}`} entry={entry} here={here} />)}</ol>;
}

function Entry({ entry, here }: { entry: LogEntry; here: Here }): JSX.Element {
  const text = activityWords.value;
  const [isOpen, open] = useState(false);
  const code = entry.facts?.["code"];
  return (
    <li class={`entry level-${entry.level}`}>
      <details onToggle={(event) => open(event.currentTarget.open)}>
        <summary>
          <time>{stamp(entry.at, language.value)}</time>
          <span class="entry-level">{entry.level}</span>
          <code class="entry-event" dir="ltr">{entry.event}</code>
          {typeof code === "string" && <code>{code}</code>}
          {entry.nodeId !== undefined && <a href={here({ node: String(entry.nodeId) })}>{text.node} {entry.nodeId}</a>}
          <span class="entry-logger">{LOST.has(entry.event) ? text.entriesLost(entry.facts?.["count"] ?? "?") : entry.logger}</span>
        </summary>
        {isOpen && (
          <div class="entry-facts">
            <p class="links">
              {entry.turnId !== undefined && may("sessions:read") && <a href={withQuery(`/activity/turns/${entry.turnId}`, { tenant: new URL(location.href).searchParams.get("tenant") ?? undefined })}>{text.turn} {entry.turnId}</a>}
              {entry.turnId !== undefined && <a href={here({ ...NO_FILTERS, level: undefined, turn: entry.turnId })}>{text.entriesOfTurn}</a>}
              {entry.requestId !== undefined && <a href={here({ ...NO_FILTERS, level: undefined, request: entry.requestId })}>{text.entriesOfRequest} {entry.requestId}</a>}
            </p>
            {entry.facts !== undefined && <JsonTree name={text.facts} value={entry.facts} isOpen />}
            <JsonTree name="ids" value={idsOf(entry)} />
            {entry.raised !== undefined && <JsonTree name={entry.raised.kind} value={entry.raised.places ?? []} isOpen />}
          </div>
        )}
      </details>
    </li>
  );
}

function idsOf({ tenantId, userId, containerId, sessionId, turnId, requestId }: LogEntry): Record<string, string> {
  return Object.fromEntries(Object.entries({ tenantId, userId, containerId, sessionId, turnId, requestId }).filter(([, id]) => id !== undefined)) as Record<string, string>;
}
