import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import type { PageProps } from "../../routes.ts";
import type { Definition, Image } from "../../state/builder.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import "../../style/builder.css";
import { Field, Form } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { isSchema } from "../../ui/schema_field.tsx";
import { Failure } from "../../ui/shown.tsx";
import { toast } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { words } from "../../words/index.ts";
import { AgentFields, changesOf, configOf, type Draft, draftOf } from "./agent_form.tsx";
import { TryPanel } from "./try_panel.tsx";

/** A form that builds an agent, and the agent to talk to beside it. */
export default function NewAgent({ query, go }: PageProps): JSX.Element {
  const { tenant, from } = query;
  const t = builderWords.value;
  const source = useData<Definition>(from === undefined ? undefined : withQuery(`/v1/definitions/${encodeURIComponent(from)}`, { tenant }));
  const definitions = useList<Definition>(withQuery("/v1/definitions", { tenant, limit: 100 })).data ?? [];
  const [draft, setDraft] = useState<Draft>(draftOf(undefined));
  const [image, setImage] = useState<Image | undefined>(undefined);
  const [built, setBuilt] = useState<Record<string, unknown>>({});
  const [ownKey, setOwnKey] = useState("");
  const [warnings, setWarnings] = useState<readonly string[]>([]);
  useEffect(() => {
    if (source.data !== undefined) setDraft(draftOf(source.data, draft.name || source.data.name));
  }, [source.data]);

  async function build(): Promise<void> {
    const config = configOf(draft);
    const made = image === undefined
      ? await request<{ image: Image; warnings?: string[] }>("POST", withQuery("/v1/images", { tenant }), { config: { ...config, definition: from, apiKey: ownKey.trim() || undefined } })
      : await request<{ image: Image; warnings?: string[] }>("PUT", withQuery(`/v1/images/${image.imageId}`, { tenant }), { updates: changesOf(built, config) });
    setOwnKey("");
    setImage(made.image);
    setBuilt(config);
    setWarnings(made.warnings ?? []);
    toast(t.built(made.image.name));
  }
  const names = definitions.map(({ uri, name }) => uri ?? name);
  return (
    <Page title={words.value.pages.newAgent}>
      <div class="beside">
        <Form submit={image === undefined ? t.build : t.rebuild} disabled={!isSchema(draft.answerSchema)} onSubmit={build}>
          <Field label={t.from}>
            {(control) => (
              <select {...control} value={from ?? ""} disabled={image !== undefined} onChange={(event) => go(withQuery("/agents/new", { tenant, from: event.currentTarget.value }), true)}>
                <option value="">—</option>
                {[...(from === undefined || names.includes(from) ? [] : [from]), ...names].map((name) => <option key={name} value={name}>{name}</option>)}
              </select>
            )}
          </Field>
          {source.error !== undefined && <Failure error={source.error} />}
          <AgentFields draft={draft} lock={image?.lock} tenant={tenant} onChange={setDraft} />
          {image === undefined && (
            <Field label={t.ownKey} hint={t.ownKeyAbout}>
              {(control) => <input {...control} type="password" autocomplete="off" value={ownKey} onInput={(event) => setOwnKey(event.currentTarget.value)} />}
            </Field>
          )}
          {warnings.map((warning) => <p key={warning} class="hint">{warning}</p>)}
          {image !== undefined && <p><a href={withQuery(`/agents/${image.imageId}`, { tenant })}>{image.name}</a></p>}
        </Form>
        <TryPanel sessionId={image?.sessionId} containerId={image?.containerId ?? ""} name={image?.name ?? ""} go={go} />
      </div>
    </Page>
  );
}
