import { Fragment, type JSX } from "preact";
import { useState } from "preact/hooks";
import type { FoundView, PassageView } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import { identity } from "../../link/who.ts";
import { may, type PageProps } from "../../routes.ts";
import { type Content, resourcePage } from "../../state/builder.ts";
import { useData, withQuery } from "../../state/data.ts";
import { documentOf, type KnowledgeContent, type KnowledgeDocument, sizeOf, withDocuments } from "../../state/knowledge.ts";
import "../../style/builder.css";
import { Button } from "../../ui/button.tsx";
import { FileInput } from "../../ui/file_input.tsx";
import { Confirm, Field, Form } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Section } from "../../ui/parts.tsx";
import { Shown } from "../../ui/shown.tsx";
import { NOTHING, Table } from "../../ui/table.tsx";
import { toast } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { bytes } from "../../words/measure.ts";
import { words } from "../../words/index.ts";
import { CollectionDocuments } from "./collection.tsx";
import { KnowledgeOptions } from "./knowledge_options.tsx";

/** One knowledge base: a search in it, the passage of a citation, and its documents. Question and citation are in the address. */
export default function KnowledgeBase({ params, query, go }: PageProps): JSX.Element {
  const { tenant, q, cite } = query;
  const t = builderWords.value;
  const id = params["base"] ?? "";
  const path = withQuery(`/v1/resources/${encodeURIComponent(id)}`, { tenant });
  const shown = useData<Content>(path);
  const here = (more: Record<string, string | undefined>) => withQuery(`/knowledge/${encodeURIComponent(id)}`, { tenant, q, ...more });
  return (
    <Page title={shown.data?.resource.name ?? words.value.pages.knowledgeBase} tools={<a class="btn" href={resourcePage(id, { tenant })}>{t.knowledgeVersions}</a>}>
      <Shown of={shown}>
        {(content) => (
          <>
            <p class="sub"><code>{content.uri}</code> · {t.versionOf(content.version.version)}</p>
            {content.resource.description !== undefined && <p dir="auto">{content.resource.description}</p>}
            <Question key={q} q={q ?? ""} onAsk={(asked) => go(here({ q: asked, cite: undefined }))} />
            {cite !== undefined && <Cited key={cite} cite={cite} tenant={tenant} close={here({ cite: undefined })} />}
            {q !== undefined && <Found key={`${q} ${content.version.version}`} id={id} q={q} version={content.version.version} tenant={tenant} open={(found) => here({ cite: found })} />}
            <Documents of={content} path={path} onChange={shown.reload} />
          </>
        )}
      </Shown>
    </Page>
  );
}

function Question({ q, onAsk }: { q: string; onAsk: (q: string) => void }): JSX.Element {
  const t = builderWords.value;
  const [text, setText] = useState(q);
  return (
    <search>
      <Form submit={t.knowledgeSearch} disabled={text.trim() === ""} onSubmit={async () => onAsk(text.trim())}>
        <Field label={t.knowledgeQuestion}>
          {(control) => <input {...control} type="search" dir="auto" autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} />}
        </Field>
      </Form>
    </search>
  );
}

interface FoundProps {
  id: string;
  q: string;
  version: string;
  tenant: string | undefined;
  open: (cite: string) => string;
}

/** The passages that fit a question, best first. */
function Found({ id, q, version, tenant, open }: FoundProps): JSX.Element {
  const t = builderWords.value;
  const found = useData<FoundView>(withQuery(`/v1/resources/${encodeURIComponent(id)}/query`, { tenant }), { q, version });
  return (
    <Section title={t.knowledgePassages}>
      <Shown of={found}>
        {({ passages, problems }) => (
          <>
            {problems?.map(({ document, problem }) => <p key={document} class="warn" dir="auto"><code>{document}</code> {problem}</p>)}
            {passages.length === 0 && <p class="empty">{t.knowledgeNothing}</p>}
            <ol class="passages">
              {passages.map((passage) => (
                <li key={passage.cite}>
                  <p class="sub"><Place of={passage} /></p>
                  <p class="passage" dir="auto">{passage.text}</p>
                  <a href={open(passage.cite)}><code dir="ltr">{passage.cite}</code></a>
                </li>
              ))}
            </ol>
          </>
        )}
      </Shown>
    </Section>
  );
}

/** The exact range of a document that a citation names. */
function Cited({ cite, tenant, close }: { cite: string; tenant: string | undefined; close: string }): JSX.Element {
  const t = builderWords.value;
  const passage = useData<PassageView>(withQuery("/v1/passages", { tenant, cite }));
  return (
    <Section title={t.knowledgeCited} tools={<a class="btn" href={close}>{words.value.close}</a>}>
      <Shown of={passage}>
        {(found) => (
          <>
            <p class="sub"><Place of={found} /> · {t.knowledgeRange(found.start + 1, found.end)}</p>
            <pre class="paper" dir="auto">{found.text}</pre>
            <p class="sub"><code dir="ltr">{cite}</code></p>
          </>
        )}
      </Shown>
    </Section>
  );
}

function Place({ of }: { of: PassageView }): JSX.Element {
  const t = builderWords.value;
  const parts = [of.title ?? of.document, of.heading, of.page === undefined ? undefined : t.knowledgePage(of.page)];
  const shown = parts.filter((part) => part !== undefined && part !== "");
  // Each by itself: a title in another direction turns nothing around it.
  return <>{shown.map((part, index) => <Fragment key={index}>{index > 0 && " · "}<bdi>{part}</bdi></Fragment>)}</>;
}

/** The documents, and the files that become documents of the next version. */
function Documents({ of, path, onChange }: { of: Content; path: string; onChange: () => Promise<void> }): JSX.Element {
  const t = builderWords.value;
  const [files, setFiles] = useState<File[]>([]);
  const [going, setGoing] = useState<KnowledgeDocument | undefined>(undefined);
  const content = of.content as KnowledgeContent;
  const documents = content.documents ?? [];
  const tenant = new URLSearchParams(path.split("?")[1]).get("tenant") ?? undefined;
  const isOwn = of.resource.owner === (tenant ?? identity.value?.tenant);
  const mayWrite = may("resources:write") && isOwn;
  async function publish(changed: KnowledgeContent): Promise<void> {
    const { version } = await request<{ version: string }>("PUT", path, { content: { ...content, ...changed } }, { "If-Match": `"${of.version.digest}"` });
    toast(t.knowledgePublished(version));
    await onChange();
  }
  const options = mayWrite && <KnowledgeOptions key={`${of.version.version} options`} content={content} onPublish={publish} />;
  if (content.collection !== undefined) {
    // Those of somebody else can be searched, and their collection cannot be read.
    if (!isOwn) return <p class="hint">{t.notYours}</p>;
    return (
      <>
        <CollectionDocuments reference={content.collection} tenant={tenant} mayWrite={mayWrite} onPublish={(collection) => publish({ collection })} />
        {options}
      </>
    );
  }
  return (
    <Section title={t.knowledgeDocuments}>
      <Table
        label={t.knowledgeDocuments}
        rows={documents}
        keyOf={({ id }) => id}
        columns={[
          { head: t.name, cell: ({ id, title }) => <><code dir="auto">{id}</code>{title !== undefined && <p class="hint" dir="auto">{title}</p>}</> },
          { head: t.knowledgeKind, cell: ({ mime, file }) => mime ?? (file === undefined ? "text" : NOTHING) },
          { head: t.knowledgeSize, isFigure: true, cell: (document) => bytes(sizeOf(document)) },
          ...(mayWrite ? [{ head: t.knowledgeRemove, cell: (document: KnowledgeDocument) => <Button onClick={() => setGoing(document)}>{t.knowledgeRemove}</Button> }] : []),
        ]}
      />
      {mayWrite && (
        <Form
          key={of.version.version}
          submit={t.knowledgeUpload}
          disabled={files.length === 0}
          onSubmit={async () => {
            await publish({ documents: withDocuments(documents, await Promise.all(files.map(documentOf))) });
            setFiles([]);
          }}
        >
          <Field label={t.knowledgeFiles} hint={t.knowledgeFilesHint}>
            {(control) => <FileInput control={control} multiple onFiles={setFiles} />}
          </Field>
        </Form>
      )}
      {options}
      {may("resources:write") && !isOwn && <p class="hint">{t.notYours}</p>}
      {going !== undefined && (
        <Confirm title={`${t.knowledgeRemove}${words.value.colon}${going.id}`} submit={t.knowledgeRemove} onConfirm={() => publish({ documents: documents.filter(({ id }) => id !== going.id) })} onClose={() => setGoing(undefined)}>
          <p>{t.knowledgeRemoveAbout}</p>
        </Confirm>
      )}
    </Section>
  );
}
