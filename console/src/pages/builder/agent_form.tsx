import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { type BuiltinTool, type Definition, type Lock, type Model, type Resource, splitUri, valueOf } from "../../state/builder.ts";
import { apiError, useData, useList, withQuery } from "../../state/data.ts";
import { Field } from "../../ui/form.tsx";
import { Section } from "../../ui/parts.tsx";
import { schemaOf, SchemaField } from "../../ui/schema_field.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { money } from "../../words/format.ts";
import { gap } from "../../words/index.ts";

const RENDER_MS = 300;
const REFERENCE = "resource://";

/** What is written in the form of an agent. Figures are texts until they are sent. */
export interface Draft {
  name: string;
  description: string;
  systemPrompt: string;
  model: string;
  tools: readonly string[] | undefined;
  moreTools: string;
  knowledge: string;
  skills: string;
  sandbox: string;
  /** The JSON Schema of every answer, and its name. */
  answerSchema: string;
  answerName: string;
  variables: Readonly<Record<string, string>>;
  maxTokens: string;
  temperature: string;
  thinking: string;
}

export function draftOf(from: Definition | undefined, name = ""): Draft {
  const text = (value: number | undefined) => (value === undefined ? "" : String(value));
  const tools = from?.tools;
  return {
    name,
    description: from?.description ?? "",
    systemPrompt: from?.systemPrompt ?? "",
    model: from?.model ?? "",
    tools: tools?.filter((tool) => !tool.startsWith(REFERENCE)),
    moreTools: (tools ?? []).filter((tool) => tool.startsWith(REFERENCE)).join("\n"),
    knowledge: (from?.knowledge ?? []).join("\n"),
    skills: (from?.skills ?? []).join("\n"),
    sandbox: from?.sandbox ?? "",
    answerSchema: from?.output == null ? "" : JSON.stringify(from.output.schema, null, 2),
    answerName: from?.output?.name ?? "answer",
    variables: Object.fromEntries(Object.entries(from?.variables ?? {}).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)])),
    maxTokens: text(from?.maxTokens),
    temperature: text(from?.temperature),
    thinking: text(from?.thinking),
  };
}

/** The config of the draft; fields that are empty are left to the definition. */
export function configOf(draft: Draft): Record<string, unknown> {
  const lines = (text: string) => text.split("\n").map((line) => line.trim()).filter(Boolean);
  const figure = (text: string) => (text.trim() === "" ? undefined : Number(text));
  const more = lines(draft.moreTools);
  const tools = draft.tools === undefined && more.length === 0 ? undefined : [...(draft.tools ?? []), ...more];
  const variables = Object.entries(draft.variables).filter(([, value]) => value !== "");
  return {
    name: draft.name || undefined,
    description: draft.description || undefined,
    systemPrompt: draft.systemPrompt || undefined,
    model: draft.model || undefined,
    tools,
    knowledge: draft.knowledge.trim() === "" ? undefined : lines(draft.knowledge),
    skills: draft.skills.trim() === "" ? undefined : lines(draft.skills),
    sandbox: draft.sandbox || undefined,
    output: draft.answerSchema.trim() === "" ? undefined : { name: draft.answerName, schema: schemaOf(draft.answerSchema) },
    variables: variables.length === 0 ? undefined : Object.fromEntries(variables.map(([key, value]) => [key, valueOf(value)])),
    maxTokens: figure(draft.maxTokens),
    temperature: figure(draft.temperature),
    thinking: figure(draft.thinking),
  };
}

/** The members of a config that differ: a reference that is sent anew is resolved anew, and would be an upgrade. Emptied ones are cleared. */
export function changesOf(before: Record<string, unknown>, after: Record<string, unknown>): Record<string, unknown> {
  const changed = Object.entries(after).filter(([name, value]) => JSON.stringify(before[name]) !== JSON.stringify(value));
  const emptied = changed.flatMap(([name, value]) => (value === undefined && name !== "name" ? [name] : []));
  const clear = emptied.filter((name) => name !== "description");
  return { ...Object.fromEntries(changed), ...(emptied.includes("description") ? { description: "" } : {}), ...(clear.length > 0 ? { clear } : {}) };
}

interface Props {
  draft: Draft;
  /** The versions that the agent is locked to. */
  lock?: readonly Lock[];
  tenant: string | undefined;
  onChange: (draft: Draft) => void;
}

/** The fields of an agent. */
export function AgentFields({ draft, lock = [], tenant, onChange }: Props): JSX.Element {
  const t = builderWords.value;
  const set = (part: Partial<Draft>) => onChange({ ...draft, ...part });
  const line = (key: "name" | "description", label: string) => (
    <Field label={label}>{(control) => <input {...control} type="text" dir="auto" autocomplete="off" maxLength={200} value={draft[key]} onInput={(event) => set({ [key]: event.currentTarget.value })} />}</Field>
  );
  const figure = (key: "maxTokens" | "temperature" | "thinking", label: string, step: string) => (
    <Field label={label} error={draft[key] !== "" && Number.isNaN(Number(draft[key])) ? t.invalidNumber : undefined}>
      {(control) => <input {...control} type="number" inputMode="decimal" min="0" step={step} value={draft[key]} onInput={(event) => set({ [key]: event.currentTarget.value })} />}
    </Field>
  );
  const lines = (key: "moreTools" | "knowledge" | "skills", label: string, hint: string) => (
    <Field label={label} hint={hint}>{(control) => <textarea {...control} rows={2} value={draft[key]} onInput={(event) => set({ [key]: event.currentTarget.value })} />}</Field>
  );
  const written = [draft.moreTools, draft.knowledge, draft.skills].flatMap((text) => text.split("\n").filter(Boolean)).length;
  return (
    <>
      {line("name", t.name)}
      {line("description", t.description)}
      <Field label={t.promptText} hint={t.promptHint}>
        {(control) => <textarea {...control} rows={8} dir="auto" value={draft.systemPrompt} onInput={(event) => set({ systemPrompt: event.currentTarget.value })} />}
      </Field>
      <Rendered draft={draft} lock={lock} tenant={tenant} onVariables={(variables) => set({ variables })} />
      <ModelField draft={draft} tenant={tenant} onModel={(model) => set({ model })} />
      <ToolTicks draft={draft} tenant={tenant} onTools={(tools) => set({ tools })} />
      <Offered type="knowledge" label={t.knowledge} written={draft.knowledge} tenant={tenant} onChange={(knowledge) => set({ knowledge })} />
      <Offered type="skills" label={t.skills} written={draft.skills} tenant={tenant} onChange={(skills) => set({ skills })} />
      <details class="more-fields">
        <summary>{t.byReference} {written > 0 && <span class="hint">{written}</span>}</summary>
        {lines("moreTools", t.moreTools, t.moreToolsHint)}
        {lines("knowledge", t.knowledgeMore, t.knowledgeHint)}
        {lines("skills", t.skillsMore, t.skillsHint)}
      </details>
      <SandboxField draft={draft} tenant={tenant} onSandbox={(sandbox) => set({ sandbox })} />
      <details class="more-fields">
        <summary>{t.outputForm} {draft.answerSchema.trim() !== "" && <span class="hint">{draft.answerName}</span>}</summary>
        <SchemaField text={draft.answerSchema} onInput={(answerSchema) => set({ answerSchema })} />
      </details>
      <Section title={t.limits}>
        <div class="pair">
          {figure("maxTokens", t.maxTokens, "1")}
          {figure("temperature", t.temperature, "0.1")}
          {figure("thinking", t.thinking, "1")}
        </div>
      </Section>
    </>
  );
}

/** A prompt by reference as its model will read it, and the variables that it wants. */
function Rendered({ draft, lock, tenant, onVariables }: { draft: Draft; lock: readonly Lock[]; tenant: string | undefined; onVariables: (variables: Draft["variables"]) => void }): JSX.Element | null {
  const t = builderWords.value;
  const written = draft.systemPrompt.trim();
  const uri = lock.find((entry) => splitUri(entry.uri)[0] === splitUri(written)[0])?.uri ?? written;
  const isReference = uri.startsWith(REFERENCE);
  const [shown, setShown] = useState<{ text?: string; problem?: string; wanted: string[] }>({ wanted: [] });
  const values = JSON.stringify(draft.variables);
  useEffect(() => {
    if (!isReference) return;
    let isLate = false;
    const timer = setTimeout(() => void render(), RENDER_MS);
    async function render(): Promise<void> {
      const args = Object.fromEntries(Object.entries(draft.variables).filter(([, value]) => value !== "").map(([key, value]) => [key, valueOf(value)]));
      try {
        const { rendered } = await request<{ rendered: unknown }>("POST", withQuery("/v1/resources/resolve", { tenant }), { uri, args });
        if (!isLate) setShown({ text: String(rendered), wanted: [] });
      } catch (thrown) {
        const error = apiError(thrown);
        const wanted = error.details["unresolved"];
        if (!isLate) setShown({ problem: error.message, wanted: Array.isArray(wanted) ? wanted.map(String) : [] });
      }
    }
    return () => {
      isLate = true;
      clearTimeout(timer);
    };
  }, [uri, isReference, values]);
  if (!isReference) return null;
  const names = [...new Set([...Object.keys(draft.variables), ...shown.wanted])];
  return (
    <Section title={t.rendered}>
      {names.length > 0 && (
        <div class="pair">
          {names.map((name) => (
            <Field key={name} label={name}>
              {(control) => <input {...control} type="text" dir="auto" value={draft.variables[name] ?? ""} onInput={(event) => onVariables({ ...draft.variables, [name]: event.currentTarget.value })} />}
            </Field>
          ))}
        </div>
      )}
      {shown.problem === undefined ? <pre class="paper" dir="auto" aria-live="polite">{shown.text ?? "…"}</pre> : <p class="problem" role="status">{shown.problem}</p>}
    </Section>
  );
}

function ModelField({ draft, tenant, onModel }: { draft: Draft; tenant: string | undefined; onModel: (model: string) => void }): JSX.Element {
  const t = builderWords.value;
  const models = useList<Model>(withQuery("/v1/catalog/models", { tenant, limit: 200 })).data ?? [];
  const preset = models.find((model) => model.isDefault);
  const chosen = models.find((model) => model.name === draft.model) ?? (draft.model === "" ? preset : undefined);
  const about = chosen && [
    chosen.price === undefined ? t.unpriced : t.modelAbout(chosen.window.toLocaleString(), money(chosen.price.input), money(chosen.price.output)),
    ...(chosen.pictures === false ? [t.noPictures] : []),
    ...(chosen.tools === false ? [t.noTools] : []),
  ].join(" · ");
  const hint = [draft.model === "" && preset !== undefined ? t.modelHint(preset.name) : undefined, about].filter(Boolean).join(gap.value);
  return (
    <Field label={t.model} hint={hint === "" ? undefined : hint}>
      {(control) => (
        <>
          <input {...control} type="text" list={`${control.id}-models`} autocomplete="off" value={draft.model} onInput={(event) => onModel(event.currentTarget.value)} />
          <datalist id={`${control.id}-models`}>{models.map((model) => <option key={model.name} value={model.name} />)}</datalist>
        </>
      )}
    </Field>
  );
}

/** Where the programs of the agent run. */
function SandboxField({ draft, tenant, onSandbox }: { draft: Draft; tenant: string | undefined; onSandbox: (sandbox: string) => void }): JSX.Element {
  const t = builderWords.value;
  const uris = (useList<Resource>(withQuery("/v1/resources", { tenant, type: "sandboxes", limit: 50 })).data ?? []).map(({ uri }) => uri);
  return (
    <Field label={t.sandbox} hint={t.sandboxHint}>
      {(control) => (
        <select {...control} value={draft.sandbox} onChange={(event) => onSandbox(event.currentTarget.value)}>
          <option value="">—</option>
          {[...new Set([...(draft.sandbox === "" ? [] : [draft.sandbox]), ...uris])].map((uri) => <option key={uri} value={uri}>{uri.replace("resource://sandboxes/", "")}</option>)}
        </select>
      )}
    </Field>
  );
}

interface OfferedProps {
  type: "knowledge" | "skills";
  label: string;
  /** The references, each in a line. */
  written: string;
  tenant: string | undefined;
  onChange: (written: string) => void;
}

/** The resources of a type that can be chosen; any other reference, or another version, is written. */
function Offered({ type, label, written, tenant, onChange }: OfferedProps): JSX.Element | null {
  const found = useList<Resource>(withQuery("/v1/resources", { tenant, type, limit: 50 })).data ?? [];
  const lines = written.split("\n").map((line) => line.trim()).filter(Boolean);
  const isChosen = (uri: string) => lines.some((line) => splitUri(line)[0] === uri);
  if (found.length === 0) return null;
  return (
    <fieldset class="ticks">
      <legend>{label}</legend>
      {found.map(({ uri, name, description }) => (
        <label key={uri} title={description}>
          <input
            type="checkbox"
            checked={isChosen(uri)}
            onChange={(event) => onChange((event.currentTarget.checked ? [...lines, uri] : lines.filter((line) => splitUri(line)[0] !== uri)).join("\n"))}
          />
          <bdi>{name}</bdi>
        </label>
      ))}
    </fieldset>
  );
}

function ToolTicks({ draft, tenant, onTools }: { draft: Draft; tenant: string | undefined; onTools: (tools: string[]) => void }): JSX.Element | null {
  const t = builderWords.value;
  const all = useData<{ items: (BuiltinTool & { isDefault?: boolean })[] }>(withQuery("/v1/catalog/tools", { tenant })).data?.items;
  if (all === undefined) return null;
  const chosen = draft.tools ?? all.filter((tool) => tool.isDefault).map((tool) => tool.name);
  return (
    <fieldset class="ticks">
      <legend>{t.tools}</legend>
      {all.map(({ name, description, unavailable }) => (
        <label key={name} title={unavailable ?? description}>
          <input
            type="checkbox"
            checked={chosen.includes(name)}
            onChange={(event) => onTools(event.currentTarget.checked ? [...chosen, name] : chosen.filter((other) => other !== name))}
          />
          <span>{name}{unavailable !== undefined && <span class="hint"> · {t.unavailable}</span>}</span>
        </label>
      ))}
    </fieldset>
  );
}
