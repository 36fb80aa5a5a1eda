import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ScheduleView, TriggerView } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import { AgentInput } from "../../ui/agent_input.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Section } from "../../ui/parts.tsx";
import { peopleWords } from "../../words/people/index.ts";

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

interface Props {
  /** The one that is changed; a new one is made without. */
  of?: ScheduleView | TriggerView;
  /** With the secret of a new trigger, which is shown once. */
  onDone: (secret?: string) => Promise<void>;
  onCancel?: () => void;
}

/** Makes another schedule or trigger, or changes one. */
export function ScheduleForm({ of, onDone, onCancel }: Props): JSX.Element {
  const text = peopleWords.value;
  const [kind, setKind] = useState<"schedule" | "trigger">(of !== undefined && "triggerId" in of ? "trigger" : "schedule");
  const [fields, setFields] = useState({
    agent: "",
    name: of?.name ?? "",
    message: of?.message ?? "",
    cron: of !== undefined && "cron" in of ? of.cron : "0 9 * * MON-FRI",
    zone: of !== undefined && "zone" in of ? of.zone : ZONE,
    sessionMode: of?.sessionMode ?? "same",
    onAsk: of?.onAsk ?? "deny",
  });
  const set = (part: Partial<typeof fields>) => setFields({ ...fields, ...part });
  function choose(chosen: typeof kind): void {
    setKind(chosen);
    set({ sessionMode: chosen === "trigger" ? "new" : "same" });
  }
  const trimmed = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value.trim()]));
  async function save(): Promise<void> {
    const { agent, name, cron, zone, ...common } = trimmed;
    const times = kind === "schedule" ? { cron, zone } : {};
    const named = name === "" ? {} : { name };
    const body = { ...common, ...named, ...times };
    if (of !== undefined) await request("PUT", pathOf(of), body);
    else {
      const made = await request<ScheduleView & TriggerView>("POST", `/v1/${kind}s`, { agent, ...body });
      set({ name: "", message: "" });
      return onDone(made.secret);
    }
    return onDone();
  }
  const line = (name: "name" | "cron" | "zone", label: string, hint?: string) => (
    <Field label={label} hint={hint}>
      {(control) => <input {...control} type="text" dir={name === "name" ? "auto" : "ltr"} autocomplete="off" spellcheck={false} value={fields[name]} onInput={(event) => set({ [name]: event.currentTarget.value })} />}
    </Field>
  );
  const choice = (name: "sessionMode" | "onAsk", label: string, of: Readonly<Record<string, string>>) => (
    <Field label={label}>
      {(control) => (
        <select {...control} value={fields[name]} onChange={(event) => set({ [name]: event.currentTarget.value })}>
          {Object.entries(of).map(([value, shown]) => <option key={value} value={value}>{shown}</option>)}
        </select>
      )}
    </Field>
  );
  return (
    <Section title={of === undefined ? text.scheduleNew : text.scheduleChange(of.name)}>
      <Form submit={of === undefined ? text.scheduleCreate : text.save} disabled={(of === undefined && trimmed["agent"] === "") || trimmed["message"] === ""} onSubmit={save} onCancel={onCancel}>
        {of === undefined && (
          <Field label={text.scheduleKind}>
            {(control) => (
              <select {...control} value={kind} onChange={(event) => choose(event.currentTarget.value === "trigger" ? "trigger" : "schedule")}>
                <option value="schedule">{text.scheduleKinds["schedule"]}</option>
                <option value="trigger">{text.scheduleKinds["trigger"]}</option>
              </select>
            )}
          </Field>
        )}
        {of === undefined && (
          <Field label={text.scheduleAgent} hint={text.scheduleAgentHint}>
            {(control) => <AgentInput control={control} value={fields.agent} onInput={(agent) => set({ agent })} />}
          </Field>
        )}
        {line("name", text.name, of === undefined ? text.scheduleNameHint : undefined)}
        <Field label={text.scheduleMessage}>
          {(control) => <textarea {...control} dir="auto" rows={3} value={fields.message} onInput={(event) => set({ message: event.currentTarget.value })} />}
        </Field>
        {kind === "schedule" && line("cron", text.scheduleTimes, text.scheduleTimesHint)}
        {kind === "schedule" && (
          <div class="presets" role="group" aria-label={text.scheduleOften}>
            {Object.entries(text.schedulePresets).map(([cron, shown]) => (
              <button key={cron} type="button" class="preset" aria-pressed={trimmed["cron"] === cron} onClick={() => set({ cron })}>{shown}</button>
            ))}
          </div>
        )}
        {kind === "schedule" && line("zone", text.scheduleZone)}
        {choice("sessionMode", text.scheduleConversation, text.scheduleModes)}
        {choice("onAsk", text.scheduleOnAsk, text.scheduleAsks)}
      </Form>
    </Section>
  );
}

/** Where a schedule or trigger is in the API. */
export const pathOf = (one: ScheduleView | TriggerView) => ("triggerId" in one ? `/v1/triggers/${encodeURIComponent(one.triggerId)}` : `/v1/schedules/${encodeURIComponent(one.scheduleId)}`);
