import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { may, type PageProps } from "../../routes.ts";
import type { Resource } from "../../state/builder.ts";
import { makeCollection, sendFiles } from "../../state/collection.ts";
import { useList, withQuery } from "../../state/data.ts";
import { documentOf, INLINE_MAX_BYTES, type KnowledgeContent } from "../../state/knowledge.ts";
import "../../style/builder.css";
import { FileInput } from "../../ui/file_input.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Section } from "../../ui/parts.tsx";
import { More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { when } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { Sent } from "./collection.tsx";
import { Collections } from "./collections.tsx";

/** The knowledge bases that the user can see, and a form for another. */
export default function Knowledge({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const t = builderWords.value;
  const list = useList<Resource>(withQuery("/v1/resources", { tenant, type: "knowledge", limit: 50 }));
  const [name, setName] = useState("");
  const [files, setFiles] = useState<File[]>([]);
  const [part, setPart] = useState<number | undefined>(undefined);
  async function contentOf(): Promise<KnowledgeContent> {
    if (files.reduce((sum, { size }) => sum + size, 0) <= INLINE_MAX_BYTES) return { documents: await Promise.all(files.map(documentOf)) };
    await makeCollection(name.trim(), tenant);
    try {
      return { collection: await sendFiles(name.trim(), files, tenant, setPart) };
    } finally {
      setPart(undefined);
    }
  }
  async function create(): Promise<void> {
    const content = await contentOf();
    const { id } = await request<{ id: string }>("POST", withQuery("/v1/resources", { tenant }), { type: "knowledge", name: name.trim(), content });
    go(withQuery(`/knowledge/${encodeURIComponent(id)}`, { tenant }));
  }
  return (
    <Page title={words.value.pages.knowledge}>
      <p class="hint">{t.knowledgeAbout}</p>
      <Shown of={list}>
        {(rows) =>
          rows.length === 0 ? (
            <p class="empty">{may("resources:write") ? t.knowledgeNone : t.knowledgeNobody}</p>
          ) : (
            <>
              <Table
                label={words.value.pages.knowledge}
                rows={rows}
                keyOf={({ id }) => id}
                columns={[
                  { head: t.name, cell: (row) => <a href={withQuery(`/knowledge/${encodeURIComponent(row.id)}`, { tenant })} dir="auto">{row.name}</a> },
                  { head: t.description, isText: true, cell: ({ description }) => <span dir="auto">{description}</span> },
                  { head: t.owner, cell: ({ owner }) => owner },
                  { head: t.latest, cell: ({ latest }) => latest },
                  { head: t.changed, cell: ({ updatedAt }) => <time>{when(updatedAt, language.value, Date.now())}</time> },
                ]}
              />
              <More more={list.more} />
            </>
          )
        }
      </Shown>
      {may("resources:write") && <Collections tenant={tenant} />}
      {may("resources:write") && list.data !== undefined && (
        <Section title={t.knowledgeNew}>
          <Form submit={t.knowledgeCreate} disabled={name.trim() === "" || files.length === 0} onSubmit={create}>
            <Field label={t.name} hint={t.knowledgeNameHint}>
              {(control) => <input {...control} type="text" dir="auto" autocomplete="off" spellcheck={false} value={name} onInput={(event) => setName(event.currentTarget.value)} />}
            </Field>
            <Field label={t.knowledgeFiles} hint={t.collectionFilesHint}>
              {(control) => <FileInput control={control} multiple onFiles={setFiles} />}
            </Field>
            <Sent part={part} />
          </Form>
        </Section>
      )}
    </Page>
  );
}
