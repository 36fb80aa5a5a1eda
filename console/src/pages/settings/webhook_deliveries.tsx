import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { DeliveryView as DeliveryRow } from "../../link/client.ts";
import { type ApiError, request } from "../../link/http.ts";
import { apiError, useList, withQuery } from "../../state/data.ts";
import { useRefresh } from "../../state/refresh.ts";
import { Button } from "../../ui/button.tsx";
import { Form } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Section } from "../../ui/parts.tsx";
import { Failure, More, Shown } from "../../ui/shown.tsx";
import { NOTHING, Table } from "../../ui/table.tsx";
import { language } from "../../words/index.ts";
import { stamp } from "../../words/measure.ts";
import { settingsWords } from "../../words/settings/index.ts";
import { SecretOnce, type WebhookRow } from "./webhook_form.tsx";

const PAGE_MAX = 50;
const REFRESH_MS = 5_000;

interface Props {
  webhook: WebhookRow;
  path: string;
  tenant: string | undefined;
  onChanged: () => Promise<void>;
}

/** What was sent to a webhook and what became of it; a test event, sending again, and another secret. */
export function Deliveries({ webhook, path, tenant, onChanged }: Props): JSX.Element {
  const text = settingsWords.value;
  const deliveries = useList<DeliveryRow>(withQuery(`${path}/deliveries`, { tenant, limit: PAGE_MAX }));
  const [sent, setSent] = useState<DeliveryRow | undefined>(undefined);
  const [error, setError] = useState<ApiError | undefined>(undefined);
  const [isBusy, setBusy] = useState(false);
  const [isRotating, setRotating] = useState(false);
  useRefresh(() => {
    // Reading again begins at the first page: whoever has turned the page keeps what is shown.
    if ((deliveries.data?.length ?? 0) <= PAGE_MAX) void deliveries.reload();
  }, REFRESH_MS);
  const time = (at: number | undefined) => (at === undefined ? NOTHING : <time>{stamp(at, language.value)}</time>);

  async function send(verb: string): Promise<void> {
    setBusy(true);
    setError(undefined);
    setSent(undefined);
    try {
      setSent(await request<DeliveryRow>("POST", withQuery(path + verb, { tenant })));
      await Promise.all([deliveries.reload(), onChanged()]);
    } catch (thrown) {
      setError(apiError(thrown));
    } finally {
      setBusy(false);
    }
  }
  const isOff = isBusy || !webhook.enabled;
  return (
    <Section title={text.webhookDeliveries}>
      <p class="address"><code dir="ltr">{webhook.url}</code></p>
      <p class="button-row">
        <Button disabled={isOff} onClick={() => void send("/test")}>{text.webhookTest}</Button>
        <Button onClick={() => setRotating(true)}>{text.webhookRotate}</Button>
      </p>
      <div role="status">{sent !== undefined && <p><code>{sent.type}</code> · <Outcome of={sent} /></p>}</div>
      {error !== undefined && <Failure error={error} />}
      <Shown of={deliveries}>
        {(rows) =>
          rows.length === 0 ? (
            <p class="empty">{text.webhookDeliveriesNothing}</p>
          ) : (
            <Table
              label={text.webhookDeliveries}
              rows={rows}
              keyOf={({ number }) => String(number)}
              columns={[
                { head: text.webhookEvent, cell: ({ type, createdAt }) => <><code>{type}</code><p class="hint">{time(createdAt)}</p></> },
                { head: text.state, cell: (delivery) => <Outcome of={delivery} /> },
                { head: text.webhookAttempts, isFigure: true, cell: ({ attempts }) => attempts },
                { head: text.webhookLast, cell: ({ lastAt }) => time(lastAt) },
                { head: text.webhookNext, cell: ({ nextAt }) => time(nextAt) },
                { head: text.channelDo, cell: ({ number }) => <Button disabled={isOff} onClick={() => void send(`/deliveries/${number}/redeliver`)}>{text.webhookRedeliver}</Button> },
              ]}
            />
          )
        }
      </Shown>
      <More more={deliveries.more} />
      {isRotating && <Rotate path={withQuery(`${path}/rotate`, { tenant })} onClose={() => setRotating(false)} />}
    </Section>
  );
}

function Outcome({ of: { state, status, error } }: { of: DeliveryRow }): JSX.Element {
  return (
    <>
      {settingsWords.value.webhookStates[state] ?? state}
      {status !== undefined && <> · {status}</>}
      {error !== undefined && state !== "delivered" && <p class="problem" dir="auto">{error}</p>}
    </>
  );
}

function Rotate({ path, onClose }: { path: string; onClose: () => void }): JSX.Element {
  const text = settingsWords.value;
  const [secret, setSecret] = useState<string | undefined>(undefined);
  return (
    <Modal label={text.webhookRotate} onClose={onClose}>
      {(close) => (
        <>
          <h2>{text.webhookRotate}</h2>
          {secret !== undefined ? (
            <SecretOnce secret={secret} onDone={close} />
          ) : (
            <Form submit={text.webhookRotateDo} onSubmit={async () => setSecret((await request<WebhookRow>("POST", path)).secret)} onCancel={close}>
              <p>{text.webhookRotateWhat}</p>
            </Form>
          )}
        </>
      )}
    </Modal>
  );
}
