import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type ApiError, request } from "../../link/http.ts";
import type { PageProps } from "../../routes.ts";
import { apiError, useList, withQuery } from "../../state/data.ts";
import { useRefresh } from "../../state/refresh.ts";
import "../../style/activity.css";
import { Button } from "../../ui/button.tsx";
import { Confirm } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Failure, More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";
import { attempt } from "../../ui/toast.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { language, words } from "../../words/index.ts";
import { stamp } from "../../words/measure.ts";
import { settingsWords } from "../../words/settings/index.ts";
import { Deliveries } from "./webhook_deliveries.tsx";
import { WebhookForm, type WebhookRow } from "./webhook_form.tsx";

const REFRESH_MS = 5_000;

/** The addresses that are told of events: how each fares, what was sent to one of them, and a form for another. */
export default function Webhooks({ query, go }: PageProps): JSX.Element {
  const { tenant, webhook: selected } = query;
  const text = settingsWords.value;
  const webhooks = useList<WebhookRow>(withQuery("/v1/webhooks", { tenant, limit: 100 }));
  useRefresh(webhooks.reload, REFRESH_MS);
  const [going, setGoing] = useState<WebhookRow | undefined>(undefined);
  const [error, setError] = useState<ApiError | undefined>(undefined);
  const pathOf = ({ webhookId }: WebhookRow) => `/v1/webhooks/${encodeURIComponent(webhookId)}`;
  const addressOf = (webhook: string | undefined) => withQuery("/settings/webhooks", { tenant, webhook });
  const open = webhooks.data?.find(({ webhookId }) => webhookId === selected);
  async function turn(webhook: WebhookRow): Promise<void> {
    setError(undefined);
    try {
      await request("PUT", withQuery(pathOf(webhook), { tenant }), { enabled: !webhook.enabled });
      await webhooks.reload();
    } catch (thrown) {
      setError(apiError(thrown));
    }
  }
  return (
    <Page title={words.value.pages.webhooks} tools={<TenantChoice whole={activityWords.value.ofTenant} go={go} />}>
      <p class="hint">{text.webhooksHint}</p>
      {error !== undefined && <Failure error={error} />}
      <Shown of={webhooks}>
        {(rows) =>
          rows.length === 0 ? (
            <p class="empty">{text.webhooksNothing}</p>
          ) : (
            <Table
              label={words.value.pages.webhooks}
              rows={rows}
              keyOf={({ webhookId }) => webhookId}
              columns={[
                { head: text.webhookAddress, cell: (webhook) => <Address webhook={webhook} /> },
                { head: text.webhookEvents, cell: ({ events }) => <Events events={events} /> },
                { head: text.state, cell: (webhook) => <State webhook={webhook} /> },
                {
                  head: text.channelDo,
                  cell: (webhook) => (
                    <span class="button-row">
                      <a class="btn" href={addressOf(webhook === open ? undefined : webhook.webhookId)} aria-current={webhook === open ? "true" : undefined}>{text.webhookDeliveries}</a>
                      <Button onClick={() => attempt(turn(webhook))}>{webhook.enabled ? text.channelDisable : text.channelEnable}</Button>
                      <Button onClick={() => setGoing(webhook)}>{text.delete}</Button>
                    </span>
                  ),
                },
              ]}
            />
          )
        }
      </Shown>
      <More more={webhooks.more} />
      {open !== undefined && <Deliveries key={open.webhookId} webhook={open} path={pathOf(open)} tenant={tenant} onChanged={webhooks.reload} />}
      {webhooks.data !== undefined && <WebhookForm tenant={tenant} onMade={webhooks.reload} />}
      {going !== undefined && (
        <Confirm
          title={text.webhookDelete(hostOf(going.url))}
          submit={text.delete}
          typed={hostOf(going.url)}
          onConfirm={async () => {
            await request("DELETE", withQuery(pathOf(going), { tenant }));
            await webhooks.reload();
          }}
          onClose={() => setGoing(undefined)}
        >
          <p class="address"><code dir="ltr">{going.url}</code></p>
          <p>{text.webhookDeleteWhat}</p>
        </Confirm>
      )}
    </Page>
  );
}

const hostOf = (url: string) => (URL.canParse(url) ? new URL(url).host : url);

function Address({ webhook }: { webhook: WebhookRow }): JSX.Element {
  return (
    <>
      <code dir="ltr">{webhook.url}</code>
      {webhook.description !== undefined && <p class="hint" dir="auto">{webhook.description}</p>}
    </>
  );
}

function Events({ events }: { events: readonly string[] }): JSX.Element {
  return <>{events.map((event) => <div key={event} class="event-name"><code>{event}</code></div>)}</>;
}

function State({ webhook }: { webhook: WebhookRow }): JSX.Element {
  const text = settingsWords.value;
  const { enabled, disabledAt, disabledReason, failingSince } = webhook;
  const at = (time: number) => stamp(time, language.value);
  if (enabled) return failingSince === undefined ? <>{text.webhookEnabled}</> : <span class="warn">{text.webhookFailing(at(failingSince))}</span>;
  return (
    <>
      {text.webhookDisabled}
      {disabledAt !== undefined && <> · <time>{at(disabledAt)}</time></>}
      {disabledReason !== undefined && <p class="problem">{text.webhookReasons[disabledReason] ?? disabledReason}</p>}
    </>
  );
}
