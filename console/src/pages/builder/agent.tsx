import type { SessionRecord as SessionRow, UsageView as UsageRow } from "../../link/client.ts";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { may, type PageProps } from "../../routes.ts";
import { beginningOf, type Image, resourcePage, splitUri } from "../../state/builder.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import "../../style/builder.css";
import { Button } from "../../ui/button.tsx";
import { Confirm, Form } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Copyable, Figures, JsonTree, Section } from "../../ui/parts.tsx";
import { isSchema } from "../../ui/schema_field.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { attempt, toast } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { money, when } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { AgentFields, changesOf, configOf, type Draft, draftOf } from "./agent_form.tsx";
import { OwnKey } from "./own_key.tsx";
import { Tags } from "./tags.tsx";
import { TryPanel } from "./try_panel.tsx";
import { UpgradeDialog } from "./upgrade_dialog.tsx";

const DAYS_MS = 30 * 86_400_000;

/** One agent: what is frozen in it, who talks to it, what it costs; change, upgrade, stop, delete. */
export default function AgentPage({ params, query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const t = builderWords.value;
  const id = params["image"] ?? "";
  const path = (rest = "") => withQuery(`/v1/images/${encodeURIComponent(id)}${rest}`, { tenant });
  const image = useData<Image>(path());
  const [dialog, setDialog] = useState<"upgrade" | "delete" | undefined>(query["upgrade"] === undefined ? undefined : "upgrade");
  const mayWrite = may("images:write");
  const behind = image.data?.behind ?? 0;
  const isEditing = query["edit"] !== undefined;
  const here = (edit?: string) => withQuery(`/agents/${encodeURIComponent(id)}`, { tenant, edit });
  const tools = image.data !== undefined && (
    <div class="bars">
      {mayWrite && !isEditing && <a class="btn" href={here("1")}>{t.edit}</a>}
      {mayWrite && <Button primary={behind > 0} onClick={() => setDialog("upgrade")}>{behind > 0 ? `${t.upgrade} (${behind})` : t.upgrade}</Button>}
      {may("agent:use") && <Button disabled={!image.data.online} onClick={() => attempt(request("POST", path("/stop"), {}).then(() => (toast(t.stopped), image.reload())))}>{t.stop}</Button>}
      {may("agent:use") && <a class="btn" href={withQuery("/agents/run", { tenant, agent: image.data.imageId })}>{words.value.pages.runOnce}</a>}
      <a class="btn" href={path("/file")} download={`${image.data.name}.avmimage`}>{t.imageSave}</a>
      {mayWrite && <Button onClick={() => setDialog("delete")}>{t.remove}</Button>}
    </div>
  );
  return (
    <Page title={image.data?.name ?? words.value.pages.agent} tools={tools}>
      <Shown of={image}>
        {(shown) => (
          <>
            <p class="sub">
              <span class="state">{shown.online && <span class="dot" />}{shown.online ? t.online : t.asleep}</span> · {shown.containerId} · {t.builtFrom(shown.definitionRef ?? shown.definitionName)} · {when(shown.updatedAt, language.value, Date.now())}
            </p>
            <Copyable text={shown.digest} shown={beginningOf(shown.digest)} />
            <div class="beside">
              <div>
                {isEditing && mayWrite ? <Edit image={shown} tenant={tenant} onSaved={() => void image.reload().then(() => go(here()))} onCancel={() => go(here())} path={path()} /> : <Frozen image={shown} tenant={tenant} />}
                <Tags imageId={shown.imageId} tenant={tenant} />
                {mayWrite && <OwnKey path={path()} hasKey={shown.config?.ownKey ?? false} onChanged={() => void image.reload()} />}
                <Usage imageId={shown.imageId} tenant={tenant} />
                <Sessions imageId={shown.imageId} tenant={tenant} />
              </div>
              {may("agent:use") && <TryPanel sessionId={shown.sessionId} containerId={shown.containerId} name={shown.name} isClosed go={go} />}
            </div>
            {dialog === "upgrade" && mayWrite && <UpgradeDialog path={path("/upgrade")} onDone={() => void image.reload()} onClose={() => setDialog(undefined)} />}
            {dialog === "delete" && (
              <Confirm
                title={t.removeTitle(shown.name)}
                submit={t.remove}
                typed={shown.name}
                onConfirm={() => request("DELETE", path()).then(() => (toast(t.removed), go(withQuery("/agents", { tenant }))))}
                onClose={() => setDialog(undefined)}
              >
                <p>{t.removeAbout}</p>
              </Confirm>
            )}
          </>
        )}
      </Shown>
    </Page>
  );
}

function Frozen({ image, tenant }: { image: Image; tenant: string | undefined }): JSX.Element {
  const t = builderWords.value;
  const { config, written } = image;
  const lock = image.lock ?? [];
  return (
    <>
      <Section title={t.prompt}>
        {image.systemPromptRef !== undefined && <p><a href={resourcePage(splitUri(image.systemPromptRef)[0], { tenant })}><code>{image.systemPromptRef}</code></a></p>}
        <pre class="paper" dir="auto">{config?.systemPrompt ?? t.renderedEmpty}</pre>
      </Section>
      <Section title={t.frozen}>
        <Figures
          of={[
            [t.model, config?.model],
            [t.maxTokens, config?.maxTokens.toLocaleString()],
            ...(config?.temperature === undefined ? [] : [[t.temperature, config.temperature] as const]),
            ...(config?.thinking === undefined ? [] : [[t.thinking, config.thinking.toLocaleString()] as const]),
          ]}
        />
        <p><strong>{t.tools}</strong> {[...(config?.tools ?? [])].join(", ") || "—"}</p>
        {(config?.unavailable ?? []).map((uri) => <p key={uri} class="problem"><code>{uri}</code> {t.unavailable}</p>)}
        {([[t.knowledge, config?.knowledge], [t.skills, config?.skills], [t.subAgents, config?.agents], [t.handoffs, config?.handoffs], [t.sandbox, config?.sandbox && [config.sandbox]]] as const).map(
          ([name, uris]) => uris && uris.length > 0 && <p key={name}><strong>{name}</strong> {uris.join(", ")}</p>,
        )}
        {config?.variables !== undefined && <JsonTree name={t.variables} value={config.variables} />}
        {config?.output !== undefined && <JsonTree name={t.outputForm} value={config.output} />}
        {config?.limits !== undefined && <JsonTree name={t.limits} value={config.limits} />}
        {(written?.policy ?? []).length > 0 && <JsonTree name={t.policy} value={written?.policy} isOpen />}
      </Section>
      <Section title={t.lock}>
        {lock.length === 0 ? (
          <Empty>{t.lockEmpty}</Empty>
        ) : (
          <Table
            label={t.lock}
            rows={lock}
            keyOf={(entry) => entry.uri}
            columns={[
              { head: words.value.pages.resource, cell: ({ uri, version }) => <a href={resourcePage(splitUri(uri)[0], { tenant, v: version })}>{splitUri(uri)[0].replace("resource://", "")}</a> },
              { head: t.version, cell: ({ version }) => version },
              { head: "sha256", cell: ({ digest }) => <code title={digest}>{digest.slice(7, 19)}</code> },
            ]}
          />
        )}
      </Section>
    </>
  );
}

function Edit({ image, tenant, path, onSaved, onCancel }: { image: Image; tenant: string | undefined; path: string; onSaved: () => void; onCancel: () => void }): JSX.Element {
  const t = builderWords.value;
  const [before] = useState<Draft>(() => draftOf({ ...image.written, name: image.name, description: image.description }, image.name));
  const [draft, setDraft] = useState(before);
  async function save(): Promise<void> {
    const { warnings } = await request<{ warnings?: string[] }>("PUT", path, { updates: changesOf(configOf(before), configOf(draft)) });
    toast((warnings ?? []).join(" ") || t.saved);
    onSaved();
  }
  return (
    <Form submit={t.save} disabled={!isSchema(draft.answerSchema)} onSubmit={save} onCancel={onCancel}>
      <AgentFields draft={draft} lock={image.lock} tenant={tenant} onChange={setDraft} />
    </Form>
  );
}

function Usage({ imageId, tenant }: { imageId: string; tenant: string | undefined }): JSX.Element | null {
  const t = builderWords.value;
  const [since] = useState(() => new Date(Date.now() - DAYS_MS).toISOString().slice(0, 10));
  const mayRead = may("usage:read") || may("tenants:admin");
  const report = useData<{ items: UsageRow[] }>(mayRead ? withQuery("/v1/usage", { tenant, by: "image", since }) : undefined);
  if (!mayRead) return null;
  const row = report.data?.items.find((item) => item.imageId === imageId);
  const count = (value: number | undefined) => (value ?? 0).toLocaleString(language.value);
  return (
    <Section title={t.usage30}>
      <Figures of={[[t.turns, count(row?.calls)], [t.tokensIn, count(row?.inputTokens)], [t.tokensOut, count(row?.outputTokens)], [t.spent, money(row?.price ?? 0)]]} />
    </Section>
  );
}

function Sessions({ imageId, tenant }: { imageId: string; tenant: string | undefined }): JSX.Element | null {
  const t = builderWords.value;
  const list = useList<SessionRow>(may("sessions:read") ? withQuery("/v1/sessions", { tenant, image: imageId, archived: "all", limit: 20 }) : undefined);
  if (!may("sessions:read")) return null;
  return (
    <Section title={t.sessions}>
      <Shown of={list}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty>{t.noSessions}</Empty>
          ) : (
            <>
              <ul class="lines">
                {rows.map((row) => (
                  <li key={row.sessionId}>
                    <a href={`/c/${row.sessionId}`} dir="auto">{row.title ?? row.preview ?? words.value.untitled}</a>
                    <time>{when(row.updatedAt, language.value, Date.now())}</time>
                  </li>
                ))}
              </ul>
              <More more={list.more} />
            </>
          )
        }
      </Shown>
    </Section>
  );
}
