import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { TriggerView } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import { Field, Form } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Section } from "../../ui/parts.tsx";
import { peopleWords } from "../../words/people/index.ts";
import { SecretOnce } from "../settings/webhook_form.tsx";

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Makes another schedule, or a trigger, whose secret is shown once. */
export function ScheduleForm({ onMade }: { onMade: () => Promise<void> }): JSX.Element {
  const text = peopleWords.value;
  const [kind, setKind] = useState<"schedule" | "trigger">("schedule");
  const [agent, setAgent] = useState("");
  const [message, setMessage] = useState("");
  const [cron, setCron] = useState("0 9 * * MON-FRI");
  const [zone, setZone] = useState(ZONE);
  const [secret, setSecret] = useState<string | undefined>(undefined);
  async function create(): Promise<void> {
    const common = { agent: agent.trim(), message: message.trim() };
    if (kind === "schedule") await request("POST", "/v1/schedules", { ...common, cron: cron.trim(), zone: zone.trim() });
    else setSecret((await request<TriggerView>("POST", "/v1/triggers", common)).secret);
    setMessage("");
    await onMade();
  }
  return (
    <Section title={text.scheduleNew}>
      <Form submit={text.scheduleCreate} disabled={agent.trim() === "" || message.trim() === ""} onSubmit={create}>
        <Field label={text.scheduleKind}>
          {(control) => (
            <select {...control} value={kind} onChange={(event) => setKind(event.currentTarget.value === "trigger" ? "trigger" : "schedule")}>
              <option value="schedule">{text.scheduleKinds["schedule"]}</option>
              <option value="trigger">{text.scheduleKinds["trigger"]}</option>
            </select>
          )}
        </Field>
        <Field label={text.scheduleAgent} hint={text.scheduleAgentHint}>
          {(control) => <input {...control} type="text" dir="ltr" autocomplete="off" spellcheck={false} value={agent} onInput={(event) => setAgent(event.currentTarget.value)} />}
        </Field>
        <Field label={text.scheduleMessage}>
          {(control) => <textarea {...control} rows={3} value={message} onInput={(event) => setMessage(event.currentTarget.value)} />}
        </Field>
        {kind === "schedule" && (
          <>
            <Field label={text.scheduleTimes} hint={text.scheduleTimesHint}>
              {(control) => <input {...control} type="text" dir="ltr" autocomplete="off" spellcheck={false} value={cron} onInput={(event) => setCron(event.currentTarget.value)} />}
            </Field>
            <Field label={text.scheduleZone}>
              {(control) => <input {...control} type="text" dir="ltr" autocomplete="off" spellcheck={false} value={zone} onInput={(event) => setZone(event.currentTarget.value)} />}
            </Field>
          </>
        )}
      </Form>
      {secret !== undefined && (
        <Modal label={text.triggerMade} onClose={() => setSecret(undefined)}>
          {(close) => (
            <>
              <h2>{text.triggerMade}</h2>
              <SecretOnce secret={secret} onDone={close} />
            </>
          )}
        </Modal>
      )}
    </Section>
  );
}
