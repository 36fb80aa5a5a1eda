import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { may, type PageProps } from "../../routes.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import { useRefresh } from "../../state/refresh.ts";
import type { Timeline } from "../../state/timeline.ts";
import "../../style/activity.css";
import { IconButton } from "../../ui/button.tsx";
import { Icon, type IconName } from "../../ui/icons.tsx";
import { Page } from "../../ui/page.tsx";
import { Copyable, Figures, Section } from "../../ui/parts.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Shown } from "../../ui/shown.tsx";
import { isForeign } from "../../ui/tenant.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { duration, money } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { stamp } from "../../words/measure.ts";
import { EventList } from "./events.tsx";
import { Outcome, type TurnRow } from "./lists.tsx";
import { ReplayView } from "./replay.tsx";
import { Bars, Moments, Stages } from "./timeline.tsx";

const REFRESH_MS = 3_000;
const REASON_MAX = 150;
const NEIGHBOURS_MAX = 200;

/** One turn: where its time and money went, and a replay of what it said. */
export default function TurnPage({ params, query, go }: PageProps): JSX.Element {
  const turnId = params["turn"] ?? "";
  const { tenant } = query;
  const path = `/v1/turns/${encodeURIComponent(turnId)}`;
  const turn = useData<Timeline>(withQuery(path, { tenant }));
  const [reason, setReason] = useState<string | undefined>(isForeign(tenant) ? undefined : "");
  useRefresh(() => turn.data !== undefined && turn.data.outcome === undefined && turn.reload(), REFRESH_MS);
  return (
    <Page title={words.value.pages.turn} tools={<Neighbours key={turn.data?.sessionId ?? ""} turnId={turnId} sessionId={turn.data?.sessionId} tenant={tenant} />}>
      <Shown of={turn}>
        {(line) => (
          <>
            <Summary turn={line} tenant={tenant} />
            <Section title={activityWords.value.timeline}>
              <Stages turn={line} />
              <Bars turn={line} />
              <Moments turn={line} />
            </Section>
            {reason === undefined ? (
              <ReasonForm onReason={setReason} />
            ) : (
              <Told key={line.outcome ?? ""} turn={line} path={withQuery(`${path}/events`, { tenant, reason })} query={query} go={go} />
            )}
          </>
        )}
      </Shown>
    </Page>
  );
}

/** The ways to the turns before and after this one in its conversation. */
function Neighbours({ turnId, sessionId, tenant }: { turnId: string; sessionId: string | undefined; tenant: string | undefined }): JSX.Element | null {
  const turns = useList<TurnRow>(sessionId === undefined ? undefined : withQuery("/v1/turns", { session: sessionId, tenant, limit: NEIGHBOURS_MAX }));
  const { data: rows = [], more } = turns;
  const place = rows.findIndex((row) => row.turnId === turnId);
  // The newest come first: further ones are read until the turn and the one before it are among them.
  useEffect(() => void ((place < 0 || place === rows.length - 1) && more?.()), [rows.length, place]);
  if (place < 0 || rows.length < 2) return null;
  const way = (row: TurnRow | undefined, label: string, icon: IconName) =>
    row === undefined ? (
      <IconButton icon={icon} label={label} disabled onClick={() => undefined} />
    ) : (
      <a class="btn-icon" href={withQuery(`/activity/turns/${row.turnId}`, { tenant })} aria-label={label} title={label}><Icon name={icon} /></a>
    );
  return (
    <span class="neighbours">
      {way(rows[place + 1], activityWords.value.previousTurn, "left")}
      {way(rows[place - 1], activityWords.value.nextTurn, "right")}
    </span>
  );
}

function Summary({ turn, tenant }: { turn: Timeline; tenant: string | undefined }): JSX.Element {
  const text = activityWords.value;
  return (
    <>
      <p class="links">
        <Copyable text={turn.turnId} />
        {!isForeign(tenant) && <a href={`/c/${turn.sessionId}#${turn.messageId}`}>{text.conversation}</a>}
        {may("logs:read") && <a href={withQuery("/activity/logs", { tenant, turn: turn.turnId })}>{text.entries}</a>}
      </p>
      <Figures
        of={[
          [text.outcome, <Outcome key="outcome" outcome={turn.outcome ?? "running"} />],
          [text.duration, duration(turn.duration)],
          [text.price, <span key="price" title={`${turn.price} nano-USD`}>{money(turn.price)}</span>],
          [text.inOut, `${turn.usage.inputTokens.toLocaleString(language.value)} → ${turn.usage.outputTokens.toLocaleString(language.value)}`],
          [text.time, <time key="time">{stamp(turn.acceptedAt, language.value)}</time>],
        ]}
      />
    </>
  );
}

/** Asks an operator why they read what users of another tenant wrote. */
function ReasonForm({ onReason }: { onReason: (reason: string) => void }): JSX.Element {
  const [reason, setReason] = useState("");
  const text = activityWords.value;
  return (
    <Section title={text.replay}>
      <Form submit={text.foreignRead} disabled={reason.trim() === ""} onSubmit={async () => onReason(reason.trim())}>
        <Field label={text.foreignReason} hint={text.foreignReasonHint}>
          {(control) => <input {...control} type="text" maxLength={REASON_MAX} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />}
        </Field>
      </Form>
    </Section>
  );
}

function Told({ turn, path, query, go }: { turn: Timeline; path: string; query: PageProps["query"]; go: PageProps["go"] }): JSX.Element {
  const text = activityWords.value;
  const gone = turn.stages === undefined && !turn.complete;
  return (
    <>
      <Section title={text.replay}>
        {gone ? <p class="empty replay-gone">{text.eventsGone}</p> : <ReplayView turn={turn} path={path} at={query["at"]} go={go} />}
      </Section>
      {!gone && <EventList path={path} startAt={turn.acceptedAt} />}
    </>
  );
}
