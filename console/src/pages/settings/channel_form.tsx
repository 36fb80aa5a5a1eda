import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ChannelKind } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import { withQuery } from "../../state/data.ts";
import { AgentInput } from "../../ui/agent_input.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Section } from "../../ui/parts.tsx";
import { toast } from "../../ui/toast.tsx";
import { settingsWords } from "../../words/settings/index.ts";

export type { ChannelKind };

interface Props {
  kinds: readonly ChannelKind[];
  tenant: string | undefined;
  onMade: () => Promise<void>;
}

/** Connects another bot: its platform, the agent that answers, and the settings of the platform. */
export function ChannelForm({ kinds, tenant, onMade }: Props): JSX.Element {
  const text = settingsWords.value;
  const [kindName, setKind] = useState(kinds[0]?.name ?? "");
  const [name, setName] = useState("");
  const [agent, setAgent] = useState("default");
  const [values, setValues] = useState<Record<string, string>>({});
  const kind = kinds.find((each) => each.name === kindName);
  const fields = kind?.fields ?? [];
  const set = (field: string, value: string) => setValues({ ...values, [`${kindName}.${field}`]: value });
  const given = (field: string) => values[`${kindName}.${field}`] ?? "";
  const isWhole = name.trim() !== "" && agent.trim() !== "" && fields.every((field) => field.required === false || given(field.name) !== "");

  async function connect(): Promise<void> {
    const settings: Record<string, string> = {};
    for (const field of fields) {
      const value = given(field.name).trim();
      if (value === "") continue;
      settings[field.name] = value;
      if (field.isSecret === true) {
        // The channel holds the name of the secret; the value goes into the vault.
        const secret = `channel.${name.trim()}.${field.name}`;
        await request("PUT", withQuery(`/v1/secrets/${encodeURIComponent(secret)}`, { tenant }), { value });
        settings[field.name] = secret;
      }
    }
    await request("POST", withQuery("/v1/channels", { tenant }), { name: name.trim(), kind: kindName, agent: agent.trim(), settings });
    toast(text.channelMade);
    setName("");
    setValues({});
    await onMade();
  }

  return (
    <Section title={text.channelNew}>
      <Form submit={text.channelConnect} disabled={!isWhole} onSubmit={connect}>
        <Field label={text.channelKind}>
          {(control) => (
            <select {...control} value={kindName} onChange={(event) => setKind(event.currentTarget.value)}>
              {kinds.map((each) => <option key={each.name} value={each.name}>{each.title}</option>)}
            </select>
          )}
        </Field>
        <Field label={text.name} hint={text.channelNameHint}>
          {(control) => <input {...control} type="text" autocomplete="off" spellcheck={false} value={name} onInput={(event) => setName(event.currentTarget.value)} />}
        </Field>
        <Field label={text.channelAgent} hint={text.channelAgentHint}>
          {(control) => <AgentInput control={control} tenant={tenant} value={agent} onInput={setAgent} />}
        </Field>
        {fields.map((field) => (
          <Field key={`${kindName}.${field.name}`} label={text.channelFieldNames[field.name] ?? field.name} hint={hintOf(kindName, field)}>
            {(control) => {
              const shared = { ...control, spellcheck: false, value: given(field.name), onInput: (event: { currentTarget: HTMLInputElement }) => set(field.name, event.currentTarget.value) };
              return field.isSecret === true
                ? <input {...shared} type="password" autocomplete="new-password" />
                : <input {...shared} type="text" autocomplete="off" placeholder={field.default} />;
            }}
          </Field>
        ))}
      </Form>
    </Section>
  );
}

/** What a setting is, in the language in use; a plug-in says it in its own. */
function hintOf(kind: string, field: ChannelKind["fields"][number]): string {
  return settingsWords.value.channelFields[`${kind}.${field.name}`] ?? field.description;
}
