import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError, request } from "../../link/http.ts";
import { may, type PageProps } from "../../routes.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import { type Change, type Changed, type ConfigView, type Outcome, shown } from "../../state/settings.ts";
import "../../style/activity.css";
import { Button } from "../../ui/button.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Page } from "../../ui/page.tsx";
import { Section } from "../../ui/parts.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { NOTHING, Table } from "../../ui/table.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";
import { toast } from "../../ui/toast.tsx";
import { language, words } from "../../words/index.ts";
import { stamp } from "../../words/measure.ts";
import { settingsWords } from "../../words/settings/index.ts";
import { useActorNames } from "../people/people.ts";
import { ChangedTable, Preview } from "./changes.tsx";

/** Before the first change, where one can go back to as well. */
const BEGINNING: Change = { revision: 0, at: 0, actor: "", changes: [] };

/** The changes of settings, the difference of two revisions, and the way back. */
export default function History({ query, go }: PageProps): JSX.Element {
  const { tenant, from, to } = query;
  const text = settingsWords.value;
  const changes = useList<Change>(withQuery("/v1/config/history", { tenant, limit: 50 }));
  const config = useData<Pick<ConfigView, "revision">>(withQuery("/v1/config", { tenant }));
  const [back, setBack] = useState<number | undefined>(undefined);
  return (
    <Page title={words.value.pages.settingsHistory} tools={<TenantChoice whole={text.ofServer} go={go} />}>
      <CompareForm from={from} to={to} last={config.data?.revision ?? 0} onCompare={(since, until) => go(withQuery("/settings/history", { tenant, from: since, to: until }))} />
      {from !== undefined && <Difference from={from} to={to} tenant={tenant} />}
      <Shown of={changes}>
        {(rows) => (rows.length === 0 ? <Empty action={<a class="btn" href={withQuery("/settings", { tenant })}>{words.value.pages.settings}</a>}>{text.historyNothing}</Empty> : <Changes rows={changes.more === undefined ? [...rows, BEGINNING] : rows} tenant={tenant} onBack={setBack} />)}
      </Shown>
      <More more={changes.more} />
      {back !== undefined && config.data !== undefined && (
        <Rollback
          to={back}
          seen={config.data.revision}
          tenant={tenant}
          onDone={async () => {
            toast(text.rollbackDone(back));
            await Promise.all([changes.reload(), config.reload()]);
          }}
          onClose={() => setBack(undefined)}
        />
      )}
    </Page>
  );
}

function Changes({ rows, tenant, onBack }: { rows: readonly Change[]; tenant: string | undefined; onBack: (revision: number) => void }): JSX.Element {
  const text = settingsWords.value;
  const name = useActorNames(tenant);
  const newest = rows[0]?.revision;
  return (
    <Table
      label={words.value.pages.settingsHistory}
      rows={rows}
      keyOf={({ revision }) => String(revision)}
      columns={[
        { head: text.revisionOf, isFigure: true, cell: ({ revision }) => revision === 0 ? 0 : <a href={withQuery("/settings/history", { tenant, from: revision - 1, to: revision })}>{revision}</a> },
        { head: text.time, cell: ({ at }) => at === 0 ? NOTHING : <time>{stamp(at, language.value)}</time> },
        { head: text.actor, cell: ({ actor }) => <span class="actor" dir="auto" title={actor}>{name(actor)}</span> },
        {
          head: text.changed,
          cell: ({ revision, changes }) => revision === 0 ? <span class="hint">{text.beforeChanges}</span> : changes.map(({ key, to }) => <div key={key}><code class="whole">{key}</code> → <code dir="auto">{to === undefined || to === null ? text.nothingSet : shown(to)}</code></div>),
        },
        { head: text.note, isText: true, cell: ({ note }) => note === undefined ? NOTHING : <span dir="auto">{note}</span> },
        {
          head: words.value.more,
          cell: ({ revision, requestId }) => (
            <span class="links">
              {requestId !== undefined && may("logs:read") && <a href={withQuery("/activity/logs", { tenant, request: requestId })}>{text.showRequest}</a>}
              {may("config:write") && revision !== newest && <Button onClick={() => onBack(revision)}>{text.rollback}</Button>}
            </span>
          ),
        },
      ]}
    />
  );
}

function CompareForm({ from, to, last, onCompare }: { from: string | undefined; to: string | undefined; last: number; onCompare: (from: string, to: string) => void }): JSX.Element {
  const text = settingsWords.value;
  return (
    <form
      class="filters"
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        onCompare(String(form.get("from")), String(form.get("to")));
      }}
    >
      <Field label={text.compareFrom}>{(control) => <input {...control} key={from} type="number" name="from" min={0} max={last} required defaultValue={from ?? "0"} />}</Field>
      <Field label={text.compareTo}>{(control) => <input {...control} key={`${to} ${last}`} type="number" name="to" min={0} max={last} required defaultValue={to ?? String(last)} />}</Field>
      <button type="submit" class="btn">{text.compare}</button>
    </form>
  );
}

function Difference({ from, to, tenant }: { from: string; to: string | undefined; tenant: string | undefined }): JSX.Element {
  const text = settingsWords.value;
  const diff = useData<{ from: number; to: number; changed: Changed[] }>(withQuery("/v1/config/diff", { tenant, from, to }));
  return (
    <Section title={`${from} → ${to ?? ""}`}>
      <Shown of={diff}>{({ changed }) => (changed.length === 0 ? <p class="empty">{text.diffNothing}</p> : <ChangedTable label={text.compare} rows={changed} />)}</Shown>
    </Section>
  );
}

/** Shows what going back would change before it is done. */
function Rollback({ to, seen, tenant, onDone, onClose }: { to: number; seen: number; tenant: string | undefined; onDone: () => Promise<void>; onClose: () => void }): JSX.Element {
  const text = settingsWords.value;
  const [note, setNote] = useState("");
  const [outcome, setOutcome] = useState<Outcome | undefined>(undefined);
  const send = (dryRun: boolean) =>
    request<Outcome>("POST", withQuery("/v1/config/rollback", { tenant }), { to, revision: seen, dryRun, ...(note.trim() === "" ? {} : { note: note.trim() }) });
  return (
    <Modal label={text.rollbackTitle(to)} onClose={onClose}>
      {(close) => (
        <>
          <h2>{text.rollbackTitle(to)}</h2>
          {outcome !== undefined && <Preview outcome={outcome} />}
          <Form
            submit={outcome === undefined ? text.dryRun : text.rollback}
            isDanger={outcome !== undefined}
            disabled={outcome?.changed.length === 0}
            onSubmit={async () => {
              if (outcome === undefined) {
                setOutcome(await send(true));
                return;
              }
              try {
                await send(false);
              } catch (error) {
                if (error instanceof ApiError && error.status === 412) setOutcome(undefined);
                throw error;
              }
              await onDone();
              close();
            }}
            onCancel={close}
          >
            <Field label={text.note} hint={text.noteHint}>
              {(control) => <input {...control} type="text" maxLength={2_000} value={note} onInput={(event) => setNote(event.currentTarget.value)} />}
            </Field>
          </Form>
        </>
      )}
    </Modal>
  );
}
