import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { RunRecord, ScheduleView, TriggerView } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import type { PageProps } from "../../routes.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import { useRefresh } from "../../state/refresh.ts";
import "../../style/people.css";
import { Button } from "../../ui/button.tsx";
import { Confirm } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Section } from "../../ui/parts.tsx";
import { More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { attempt, toast } from "../../ui/toast.tsx";
import { language, words } from "../../words/index.ts";
import { stamp } from "../../words/measure.ts";
import { peopleWords } from "../../words/people/index.ts";
import { ScheduleForm } from "./schedule_form.tsx";

const REFRESH_MS = 15_000;

/** Schedules and triggers: when each ran last and runs next, what became of it, and a form for another. */
export default function Schedules({ query }: PageProps): JSX.Element {
  const text = peopleWords.value;
  const schedules = useList<ScheduleView>("/v1/schedules?limit=100");
  const triggers = useList<TriggerView>("/v1/triggers?limit=100");
  useRefresh(schedules.reload, REFRESH_MS);
  const [going, setGoing] = useState<{ path: string; name: string } | undefined>(undefined);
  const selected = query["of"];
  async function turn(path: string, enabled: boolean): Promise<void> {
    await request("PUT", path, { enabled });
    await Promise.all([schedules.reload(), triggers.reload()]);
  }
  async function run({ scheduleId }: ScheduleView): Promise<void> {
    await request("POST", `${pathOf(scheduleId)}/run`);
    toast(text.scheduleBegun);
    await schedules.reload();
  }
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
                { head: text.scheduleLast, cell: ({ lastAt }) => <Time at={lastAt} /> },
                { head: text.scheduleNext, cell: (schedule) => (schedule.enabled ? <Time at={schedule.nextAt} /> : <Disabled reason={schedule.disabledReason} />) },
                {
                  head: text.actions,
                  cell: (schedule) => (
                    <span class="button-row">
                      <a class="btn" href={withQuery("/me/schedules", { of: schedule.scheduleId })}>{text.scheduleRuns}</a>
                      <Button onClick={() => attempt(run(schedule))}>{text.scheduleRun}</Button>
                      <Button onClick={() => attempt(turn(pathOf(schedule.scheduleId), !schedule.enabled))}>{schedule.enabled ? text.scheduleDisable : text.scheduleEnable}</Button>
                      <Button onClick={() => setGoing({ path: pathOf(schedule.scheduleId), name: schedule.name })}>{text.scheduleDelete}</Button>
                    </span>
                  ),
                },
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
              { head: text.scheduleLast, cell: (trigger) => (trigger.enabled ? <Time at={trigger.lastAt} /> : <Disabled reason={trigger.disabledReason} />) },
              {
                head: text.actions,
                cell: (trigger) => (
                  <span class="button-row">
                    <a class="btn" href={withQuery("/me/schedules", { of: trigger.triggerId })}>{text.scheduleRuns}</a>
                    <Button onClick={() => attempt(turn(trigger.path, !trigger.enabled))}>{trigger.enabled ? text.scheduleDisable : text.scheduleEnable}</Button>
                    <Button onClick={() => setGoing({ path: trigger.path, name: trigger.name })}>{text.scheduleDelete}</Button>
                  </span>
                ),
              },
            ]}
          />
        </Section>
      )}
      {schedules.data !== undefined && <ScheduleForm onMade={async () => void (await Promise.all([schedules.reload(), triggers.reload()]))} />}
      {going !== undefined && (
        <Confirm
          title={text.scheduleDeleteTitle(going.name)}
          submit={text.scheduleDelete}
          onConfirm={async () => {
            await request("DELETE", going.path);
            await Promise.all([schedules.reload(), triggers.reload()]);
          }}
          onClose={() => setGoing(undefined)}
        >
          <p>{text.scheduleDeleteWhat}</p>
        </Confirm>
      )}
    </Page>
  );
}

const pathOf = (scheduleId: string) => `/v1/schedules/${encodeURIComponent(scheduleId)}`;

function Named({ name, message }: { name: string; message: string }): JSX.Element {
  return (
    <>
      <span dir="auto">{name}</span>
      {message !== name && <p class="hint" dir="auto">{message.slice(0, 200)}</p>}
    </>
  );
}

function Time({ at }: { at: number | undefined }): JSX.Element {
  return at === undefined ? <>—</> : <time>{stamp(at, language.value)}</time>;
}

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
                { head: text.scheduleDue, cell: ({ dueAt }) => <Time at={dueAt} /> },
                { head: text.scheduleState, cell: (run) => <State run={run} /> },
                { head: text.scheduleReason, cell: ({ reason }) => (reason === undefined ? "—" : (text.scheduleReasons[reason] ?? <span dir="auto">{reason}</span>)) },
                { head: text.scheduleConversation, cell: ({ sessionId }) => (sessionId === undefined ? "—" : <a href={`/c/${encodeURIComponent(sessionId)}`}>{text.scheduleOpen}</a>) },
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
