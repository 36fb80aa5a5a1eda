import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ChannelView as ChannelRow } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import type { PageProps } from "../../routes.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import { useRefresh } from "../../state/refresh.ts";
import "../../style/activity.css";
import { Button } from "../../ui/button.tsx";
import { Confirm } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";
import { attempt } from "../../ui/toast.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { language, words } from "../../words/index.ts";
import { stamp } from "../../words/measure.ts";
import { settingsWords } from "../../words/settings/index.ts";
import { ChannelForm, type ChannelKind } from "./channel_form.tsx";

const REFRESH_MS = 5_000;

/** The bots of chat platforms: how each is doing, and a form for another. */
export default function Channels({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const text = settingsWords.value;
  const channels = useList<ChannelRow>(withQuery("/v1/channels", { tenant, limit: 100 }));
  const kinds = useData<{ items: ChannelKind[] }>(withQuery("/v1/channel-kinds", { tenant }));
  useRefresh(channels.reload, REFRESH_MS);
  const [going, setGoing] = useState<ChannelRow | undefined>(undefined);
  const pathOf = (channel: ChannelRow, verb = "") => withQuery(`/v1/channels/${encodeURIComponent(channel.channelId)}${verb}`, { tenant });
  const titleOf = (kind: string) => kinds.data?.items.find(({ name }) => name === kind)?.title ?? kind;
  async function turn(channel: ChannelRow): Promise<void> {
    await request("POST", pathOf(channel, channel.enabled ? "/disable" : "/enable"));
    await channels.reload();
  }
  return (
    <Page title={words.value.pages.channels} tools={<TenantChoice whole={activityWords.value.ofTenant} go={go} />}>
      <p class="hint">{text.channelsHint}</p>
      <Shown of={channels}>
        {(rows) =>
          rows.length === 0 ? (
            <p class="empty">{text.channelsNothing}</p>
          ) : (
            <Table
              label={words.value.pages.channels}
              rows={rows}
              keyOf={({ channelId }) => channelId}
              columns={[
                { head: text.name, cell: ({ name }) => <span dir="auto">{name}</span> },
                { head: text.channelKind, cell: ({ kind }) => titleOf(kind) },
                { head: text.channelAgent, cell: ({ agent }) => <code dir="auto">{agent}</code> },
                { head: text.channelState, cell: ({ status }) => <State status={status} /> },
                {
                  head: text.channelDo,
                  cell: (channel) => (
                    <span class="button-row">
                      <Button onClick={() => attempt(turn(channel))}>{channel.enabled ? text.channelDisable : text.channelEnable}</Button>
                      <Button onClick={() => setGoing(channel)}>{text.delete}</Button>
                    </span>
                  ),
                },
              ]}
            />
          )
        }
      </Shown>
      <More more={channels.more} />
      <Shown of={kinds}>{({ items }) => <ChannelForm kinds={items} tenant={tenant} onMade={channels.reload} />}</Shown>
      {going !== undefined && (
        <Confirm
          title={text.channelDelete(going.name)}
          submit={text.delete}
          typed={going.name}
          onConfirm={async () => {
            await request("DELETE", pathOf(going));
            await channels.reload();
          }}
          onClose={() => setGoing(undefined)}
        >
          <p>{text.channelDeleteWhat}</p>
        </Confirm>
      )}
    </Page>
  );
}

/** What the server says, in the language in use: the sentence before a colon is known, what a platform says after it is not. */
function translated(said: string): string {
  const known = settingsWords.value.channelProblems;
  const [head, ...rest] = said.split(": ");
  return known[said] ?? (known[head ?? ""] === undefined ? said : [known[head ?? ""], ...rest].join("："));
}

function State({ status }: { status: ChannelRow["status"] }): JSX.Element {
  const text = settingsWords.value;
  const { state, since, lastError, remedy, hook } = status;
  return (
    <>
      {text.channelStates[state] ?? state}
      {since !== undefined && <> · <time>{stamp(since, language.value)}</time></>}
      {lastError !== undefined && state !== "connected" && <p class="problem" dir="auto">{translated(lastError)}</p>}
      {remedy !== undefined && <p class="hint" dir="auto">{translated(remedy)}</p>}
      {hook !== undefined && <p class="hint">{text.channelHook} <code dir="ltr">{hook}</code></p>}
    </>
  );
}
