import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { may, type PageProps } from "../../routes.ts";
import type { Resource } from "../../state/builder.ts";
import { useList, withQuery } from "../../state/data.ts";
import { partsOf, type SkillContent, skillOf, skillText } from "../../state/skill.ts";
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

/** The skills that the user can see, and a form for another. */
export default function Skills({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const t = builderWords.value;
  const list = useList<Resource>(withQuery("/v1/resources", { tenant, type: "skills", limit: 50 }));
  const page = (id: string) => withQuery(`/skills/${encodeURIComponent(id)}`, { tenant });
  async function create(content: SkillContent): Promise<void> {
    const about = { type: "skills", name: partsOf(content.text).name, content };
    const { id } = await request<{ id: string }>("POST", withQuery("/v1/resources", { tenant }), about);
    go(page(id));
  }
  return (
    <Page title={words.value.pages.skills}>
      <p class="hint">{t.skillsAbout}</p>
      <Shown of={list}>
        {(rows) =>
          rows.length === 0 ? (
            <p class="empty">{may("resources:write") ? t.skillsNone : t.skillsNobody}</p>
          ) : (
            <>
              <Table
                label={words.value.pages.skills}
                rows={rows}
                keyOf={({ id }) => id}
                columns={[
                  { head: t.name, cell: (row) => <a href={page(row.id)} dir="auto">{row.name}</a> },
                  { head: t.description, isText: true, cell: ({ description }) => <span dir="auto">{description}</span> },
                  { head: t.owner, cell: ({ owner }) => owner },
                  { head: t.latest, cell: ({ latest }) => latest },
                  { head: t.uses, isFigure: true, cell: ({ uses }) => uses ?? 0 },
                  { head: t.changed, cell: ({ updatedAt }) => <time>{when(updatedAt, language.value, Date.now())}</time> },
                ]}
              />
              <More more={list.more} />
            </>
          )
        }
      </Shown>
      {may("resources:write") && list.data !== undefined && <NewSkill onCreate={create} />}
    </Page>
  );
}

/** Makes a skill of what is written here, or of a folder with a SKILL.md. */
function NewSkill({ onCreate }: { onCreate: (content: SkillContent) => Promise<void> }): JSX.Element {
  const t = builderWords.value;
  const [isFolder, setFolder] = useState(false);
  const [draft, setDraft] = useState({ name: "", description: "", body: "" });
  const [files, setFiles] = useState<File[]>([]);
  const set = (part: Partial<typeof draft>) => setDraft({ ...draft, ...part });
  const isWhole = isFolder ? files.length > 0 : Object.values(draft).every((value) => value.trim() !== "");
  async function create(): Promise<void> {
    const content = isFolder ? await skillOf(files) : { text: skillText(draft.name.trim(), draft.description.trim(), draft.body) };
    if (content === undefined) throw new Error(t.skillNoFile);
    await onCreate(content);
  }
  return (
    <Section title={t.skillNew}>
      <Form submit={t.skillCreate} disabled={!isWhole} onSubmit={create}>
        <Field label={t.skillFrom}>
          {(control) => (
            <select {...control} value={isFolder ? "folder" : "written"} onChange={(event) => setFolder(event.currentTarget.value === "folder")}>
              <option value="written">{t.skillWritten}</option>
              <option value="folder">{t.skillFolder}</option>
            </select>
          )}
        </Field>
        {isFolder ? (
          <Field label={t.skillFiles} hint={t.skillFilesHint}>
            {(control) => <FileInput control={control} isFolder onFiles={setFiles} />}
          </Field>
        ) : (
          <>
            <Field label={t.name} hint={t.knowledgeNameHint}>
              {(control) => <input {...control} type="text" autocomplete="off" spellcheck={false} value={draft.name} onInput={(event) => set({ name: event.currentTarget.value })} />}
            </Field>
            <Field label={t.description} hint={t.skillDescriptionHint}>
              {(control) => <input {...control} type="text" dir="auto" autocomplete="off" value={draft.description} onInput={(event) => set({ description: event.currentTarget.value })} />}
            </Field>
            <Field label={t.skillText} hint={t.skillTextHint}>
              {(control) => <textarea {...control} rows={8} dir="auto" value={draft.body} onInput={(event) => set({ body: event.currentTarget.value })} />}
            </Field>
          </>
        )}
      </Form>
    </Section>
  );
}
