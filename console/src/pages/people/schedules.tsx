import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { RunRecord, ScheduleView, TriggerView } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import type { PageProps } from "../../routes.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import { useRefresh } from "../../state/refresh.ts";
import "../../style/people.css";
import { Button } from "../../ui/button.tsx";
import { Confirm } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Page } from "../../ui/page.tsx";
import { Section } from "../../ui/parts.tsx";
import { More, Shown } from "../../ui/shown.tsx";
import { NOTHING, Table } from "../../ui/table.tsx";
import { attempt, toast } from "../../ui/toast.tsx";
import { language, words } from "../../words/index.ts";
import { stamp } from "../../words/measure.ts";
import { peopleWords } from "../../words/people/index.ts";
import { SecretOnce } from "../settings/webhook_form.tsx";
import { pathOf, ScheduleForm } from "./schedule_form.tsx";

const REFRESH_MS = 15_000;

type Source = ScheduleView | TriggerView;

/** Schedules and triggers: when each ran last and runs next, what became of it, and a form for another. */
export default function Schedules({ query }: PageProps): JSX.Element {
  const text = peopleWords.value;
  const schedules = useList<ScheduleView>("/v1/schedules?limit=100");
  const triggers = useList<TriggerView>("/v1/triggers?limit=100");
  useRefresh(schedules.reload, REFRESH_MS);
  const [going, setGoing] = useState<Source | undefined>(undefined);
  const [edited, setEdited] = useState<Source | undefined>(undefined);
  const [secret, setSecret] = useState<string | undefined>(undefined);
  const selected = query["of"];
  const reload = async () => void (await Promise.all([schedules.reload(), triggers.reload()]));
  const turn = (one: Source) => request("PUT", pathOf(one), { enabled: !one.enabled }).then(reload);
  async function run(schedule: ScheduleView): Promise<void> {
    await request("POST", `${pathOf(schedule)}/run`);
    toast(text.scheduleBegun);
    await schedules.reload();
  }
  const rotate = async (trigger: TriggerView) => setSecret((await request<TriggerView>("POST", `${pathOf(trigger)}/rotate`)).secret);
  const actions = (one: Source, more: JSX.Element) => (
    <span class="row-tools">
      <a class="btn" href={withQuery("/me/schedules", { of: "triggerId" in one ? one.triggerId : one.scheduleId })}>{text.scheduleRuns}</a>
      {more}
      <Button onClick={() => setEdited(one)}>{text.scheduleEdit}</Button>
      <Button onClick={() => attempt(turn(one))}>{one.enabled ? text.scheduleDisable : text.scheduleEnable}</Button>
      <Button onClick={() => setGoing(one)}>{text.scheduleDelete}</Button>
    </span>
  );
  return (
    <Page title={words.value.pages.schedules}>
      <p class="hint">{text.scheduleHint}</p>
      <Shown of={schedules}>
        {(rows) =>
          rows.length === 0 ? (
            <p class="empty">{text.scheduleNone}</p>
          ) : (
            <Table
              label={words.value.pages.schedules}
              rows={rows}
              keyOf={({ scheduleId }) => scheduleId}
              columns={[
                { head: text.name, cell: ({ name, message }) => <Named name={name} message={message} /> },
                { head: text.scheduleTimes, cell: ({ cron, zone }) => <><code dir="ltr">{cron}</code> <span class="hint">{zone}</span></> },
                { head: text.scheduleLast, cell: ({ lastAt }) => timeOf(lastAt) },
                { head: text.scheduleNext, cell: (schedule) => (schedule.enabled ? timeOf(schedule.nextAt) : <Disabled reason={schedule.disabledReason} />) },
                { head: text.actions, cell: (schedule) => actions(schedule, <Button onClick={() => attempt(run(schedule))}>{text.scheduleRun}</Button>) },
              ]}
            />
          )
        }
      </Shown>
      <More more={schedules.more} />
      {selected !== undefined && <Runs key={selected} path={`${selected.startsWith("trig") ? "/v1/triggers" : "/v1/schedules"}/${encodeURIComponent(selected)}/runs`} />}
      {triggers.data !== undefined && triggers.data.length > 0 && (
        <Section title={text.triggers}>
          <Table
            label={text.triggers}
            rows={triggers.data}
            keyOf={({ triggerId }) => triggerId}
            columns={[
              { head: text.name, cell: ({ name, message }) => <Named name={name} message={message} /> },
              { head: text.link, cell: ({ path }) => <code dir="ltr">{path}</code> },
              { head: text.scheduleLast, cell: (trigger) => (trigger.enabled ? timeOf(trigger.lastAt) : <Disabled reason={trigger.disabledReason} />) },
              { head: text.actions, cell: (trigger) => actions(trigger, <Button onClick={() => attempt(rotate(trigger))}>{text.triggerRotate}</Button>) },
            ]}
          />
        </Section>
      )}
      <More more={triggers.more} />
      {edited !== undefined && (
        <ScheduleForm
          key={pathOf(edited)}
          of={edited}
          onDone={async () => {
            setEdited(undefined);
            toast(text.scheduleSaved);
            await reload();
          }}
          onCancel={() => setEdited(undefined)}
        />
      )}
      {edited === undefined && schedules.data !== undefined && (
        <ScheduleForm
          onDone={async (made) => {
            setSecret(made);
            await reload();
          }}
        />
      )}
      {secret !== undefined && (
        <Modal label={text.triggerSecret} onClose={() => setSecret(undefined)}>
          {(close) => (
            <>
              <h2>{text.triggerSecret}</h2>
              <SecretOnce secret={secret} about={text.triggerSecretOnce} onDone={close} />
            </>
          )}
        </Modal>
      )}
      {going !== undefined && (
        <Confirm
          title={text.scheduleDeleteTitle(going.name)}
          submit={text.scheduleDelete}
          onConfirm={() => request("DELETE", pathOf(going)).then(reload)}
          onClose={() => setGoing(undefined)}
        >
          <p>{text.scheduleDeleteWhat}</p>
        </Confirm>
      )}
    </Page>
  );
}

function Named({ name, message }: { name: string; message: string }): JSX.Element {
  return (
    <>
      <span dir="auto">{name}</span>
      {message !== name && <p class="hint" dir="auto">{message.slice(0, 200)}</p>}
    </>
  );
}

const timeOf = (at: number | undefined): ComponentChildren => (at === undefined ? NOTHING : <time>{stamp(at, language.value)}</time>);

function Disabled({ reason }: { reason: string | undefined }): JSX.Element {
  const text = peopleWords.value;
  return <span class="warn">{reason === undefined ? text.scheduleDisabled : (text.scheduleReasons[reason] ?? reason)}</span>;
}

/** The last runs of one of them, and the times at which it did not run. */
function Runs({ path }: { path: string }): JSX.Element {
  const text = peopleWords.value;
  const runs = useData<{ items: RunRecord[] }>(path);
  useRefresh(runs.reload, REFRESH_MS);
  return (
    <Section title={text.scheduleRuns}>
      <Shown of={runs}>
        {({ items }) =>
          items.length === 0 ? (
            <p class="empty">{text.scheduleRunsNone}</p>
          ) : (
            <Table
              label={text.scheduleRuns}
              rows={items}
              keyOf={({ number }) => String(number)}
              columns={[
                { head: text.scheduleDue, cell: ({ dueAt }) => timeOf(dueAt) },
                { head: text.scheduleState, cell: (run) => <State run={run} /> },
                { head: text.scheduleReason, cell: ({ reason }) => (reason === undefined ? NOTHING : (text.scheduleReasons[reason] ?? <span dir="auto">{reason}</span>)) },
                { head: text.scheduleConversation, cell: ({ sessionId }) => (sessionId === undefined ? NOTHING : <a href={`/c/${encodeURIComponent(sessionId)}`}>{text.scheduleOpen}</a>) },
              ]}
            />
          )
        }
      </Shown>
    </Section>
  );
}

function State({ run }: { run: RunRecord }): JSX.Element {
  const text = peopleWords.value;
  const shown = text.scheduleStates[run.outcome ?? run.state] ?? run.state;
  return <>{(run.count ?? 1) > 1 ? `${shown} × ${run.count}` : shown}</>;
}
