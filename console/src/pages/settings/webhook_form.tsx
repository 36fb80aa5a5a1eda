import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { WebhookView as WebhookRow } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import { withQuery } from "../../state/data.ts";
import { Field, Form } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Copyable, Section } from "../../ui/parts.tsx";
import { words } from "../../words/index.ts";
import { settingsWords } from "../../words/settings/index.ts";

export type { WebhookRow };

const EVENTS = ["turn.completed", "turn.failed", "turn.interrupted", "session.created", "wait.created", "quota.warning"] as const;
const DESCRIPTION_MAX = 200;

interface Props {
  tenant: string | undefined;
  onMade: () => Promise<void>;
}

/** Makes another webhook, and shows its secret once. */
export function WebhookForm({ tenant, onMade }: Props): JSX.Element {
  const text = settingsWords.value;
  const [url, setUrl] = useState("");
  const [events, setEvents] = useState<readonly string[]>(EVENTS);
  const [description, setDescription] = useState("");
  const [secret, setSecret] = useState<string | undefined>(undefined);
  async function create(): Promise<void> {
    const body = { url: url.trim(), events, description: description.trim() || undefined };
    setSecret((await request<WebhookRow>("POST", withQuery("/v1/webhooks", { tenant }), body)).secret);
    setUrl("");
    setEvents(EVENTS);
    setDescription("");
    await onMade();
  }
  return (
    <Section title={text.webhookNew}>
      <Form submit={text.webhookCreate} disabled={url.trim() === "" || events.length === 0} onSubmit={create}>
        <Field label={text.webhookAddress} hint={text.webhookAddressHint}>
          {(control) => <input {...control} type="url" dir="ltr" autocomplete="off" spellcheck={false} value={url} onInput={(event) => setUrl(event.currentTarget.value)} />}
        </Field>
        <fieldset class="event-ticks">
          <legend>{text.webhookEvents}</legend>
          {EVENTS.map((name) => (
            <label key={name} class="check">
              <input
                type="checkbox"
                checked={events.includes(name)}
                onChange={({ currentTarget }) => setEvents(EVENTS.filter((each) => (each === name ? currentTarget.checked : events.includes(each))))}
              />
              <span><code>{name}</code> <span class="hint">{text.webhookEventHints[name]}</span></span>
            </label>
          ))}
        </fieldset>
        <Field label={text.webhookDescription} hint={text.webhookDescriptionHint}>
          {(control) => <input {...control} type="text" maxLength={DESCRIPTION_MAX} autocomplete="off" value={description} onInput={(event) => setDescription(event.currentTarget.value)} />}
        </Field>
      </Form>
      {secret !== undefined && (
        <Modal label={text.webhookMade} onClose={() => setSecret(undefined)}>
          {(close) => (
            <>
              <h2>{text.webhookMade}</h2>
              <SecretOnce secret={secret} onDone={close} />
            </>
          )}
        </Modal>
      )}
    </Section>
  );
}

/** A secret that is shown once. */
export function SecretOnce({ secret, about = settingsWords.value.webhookSecretOnce, onDone }: { secret: string; about?: string; onDone: () => void }): JSX.Element {
  return (
    <>
      <p>{about}</p>
      <p><Copyable text={secret} /></p>
      <button type="button" class="btn btn-ink" onClick={onDone}>{words.value.close}</button>
    </>
  );
}
