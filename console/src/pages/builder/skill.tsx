import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { identity } from "../../link/who.ts";
import { Markdown } from "../../markdown/view.tsx";
import { may, type PageProps } from "../../routes.ts";
import { type Content, resourcePage } from "../../state/builder.ts";
import { useData, withQuery } from "../../state/data.ts";
import { partsOf, type SkillContent, skillOf } from "../../state/skill.ts";
import "../../style/builder.css";
import "../../style/people.css";
import { FileInput } from "../../ui/file_input.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Section } from "../../ui/parts.tsx";
import { Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { toast } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { bytes } from "../../words/measure.ts";
import { words } from "../../words/index.ts";
import { Used } from "./used.tsx";

/** What the server reads in the front matter, and the files beside it. */
interface Facts {
  license?: string;
  compatibility?: string;
  allowedTools?: string[];
  files: { path: string; size: number }[];
}

/** A skill: its instructions as an agent reads them, its files, and the agents that have it. */
export default function Skill({ params, query }: PageProps): JSX.Element {
  const { tenant, file } = query;
  const t = builderWords.value;
  const id = params["skill"] ?? "";
  const path = withQuery(`/v1/resources/${encodeURIComponent(id)}`, { tenant });
  const shown = useData<Content>(path);
  const tools = (
    <div class="bars">
      <a class="btn" href={withQuery(`/v1/resources/${encodeURIComponent(id)}/export`, { tenant })} download>{t.export}</a>
      <a class="btn" href={resourcePage(id, { tenant })}>{t.knowledgeVersions}</a>
    </div>
  );
  return (
    <Page title={shown.data?.resource.name ?? words.value.pages.skill} tools={tools}>
      <Shown of={shown}>
        {(content) => (
          <>
            <p class="sub"><code>{content.uri}</code> · {t.versionOf(content.version.version)}</p>
            <Instructions key={content.version.digest} of={content} tenant={tenant} file={file} open={(name) => withQuery(`/skills/${encodeURIComponent(id)}`, { tenant, file: name })} />
            <Replace key={`replace ${content.version.digest}`} of={content} path={path} tenant={tenant} onChange={shown.reload} />
            <Used id={id} version={undefined} tenant={tenant} />
          </>
        )}
      </Shown>
    </Page>
  );
}

function Instructions({ of, tenant, file, open }: { of: Content; tenant: string | undefined; file: string | undefined; open: (name: string | undefined) => string }): JSX.Element {
  const t = builderWords.value;
  const content = of.content as SkillContent;
  const facts = useData<{ rendered: Facts }>(withQuery("/v1/resources/resolve", { tenant }), { uri: `${of.uri.split("@")[0]}@${of.version.version}` });
  const opened = file === undefined ? undefined : content.files?.[file];
  return (
    <>
      <Shown of={facts}>
        {({ rendered }) => (
          <>
            {of.resource.description !== undefined && <p dir="auto">{of.resource.description}</p>}
            <dl class="facts">
              {rendered.license !== undefined && <><dt>{t.skillLicense}</dt><dd dir="auto">{rendered.license}</dd></>}
              {rendered.compatibility !== undefined && <><dt>{t.skillNeeds}</dt><dd dir="auto">{rendered.compatibility}</dd></>}
              {rendered.allowedTools !== undefined && <><dt>{t.tools}</dt><dd>{rendered.allowedTools.join(", ")}</dd></>}
            </dl>
            <Section title={t.skillText}>
              <div class="paper answer" dir="auto"><Markdown text={partsOf(content.text).body} /></div>
            </Section>
            {rendered.files.length > 0 && (
              <Section title={t.skillFiles}>
                <Table
                  label={t.skillFiles}
                  rows={rendered.files}
                  keyOf={(one) => one.path}
                  columns={[
                    { head: t.name, cell: (one) => (typeof content.files?.[one.path] === "string" ? <a href={open(one.path)}><code dir="auto">{one.path}</code></a> : <code dir="auto">{one.path}</code>) },
                    { head: t.knowledgeSize, isFigure: true, cell: (one) => bytes(one.size) },
                  ]}
                />
              </Section>
            )}
          </>
        )}
      </Shown>
      {typeof opened === "string" && (
        <Section title={file!} tools={<a class="btn" href={open(undefined)}>{words.value.close}</a>}>
          <pre class="paper" dir="auto" tabIndex={0}>{opened}</pre>
        </Section>
      )}
    </>
  );
}

/** Publishes another version out of a folder. */
function Replace({ of, path, tenant, onChange }: { of: Content; path: string; tenant: string | undefined; onChange: () => Promise<void> }): JSX.Element | null {
  const t = builderWords.value;
  const [files, setFiles] = useState<File[]>([]);
  if (!may("resources:write")) return null;
  if (of.resource.owner !== (tenant ?? identity.value?.tenant)) return <p class="hint">{t.notYours}</p>;
  async function publish(): Promise<void> {
    const content = await skillOf(files);
    if (content === undefined) throw new Error(t.skillNoFile);
    const { version } = await request<{ version: string }>("PUT", path, { content }, { "If-Match": `"${of.version.digest}"` });
    toast(t.knowledgePublished(version));
    await onChange();
  }
  return (
    <Section title={t.skillReplace}>
      <Form submit={t.publish} disabled={files.length === 0} onSubmit={publish}>
        <Field label={t.skillFiles} hint={t.skillFilesHint}>
          {(control) => <FileInput control={control} isFolder onFiles={setFiles} />}
        </Field>
      </Form>
    </Section>
  );
}
