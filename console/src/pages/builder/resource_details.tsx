import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { may } from "../../routes.ts";
import type { Content } from "../../state/builder.ts";
import { withQuery } from "../../state/data.ts";
import { Field, Form } from "../../ui/form.tsx";
import { Section } from "../../ui/parts.tsx";
import { toast } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";

/** What is told about a resource and is no version of it: description, tags, who may see it. */
export function ResourceDetails({ of, tenant, onSaved }: { of: Content; tenant: string | undefined; onSaved: () => void }): JSX.Element {
  const t = builderWords.value;
  const { resource } = of;
  const [draft, setDraft] = useState({
    description: resource.description ?? "",
    tags: (resource.tags ?? []).join(", "),
    visibility: resource.visibility,
    deprecated: resource.deprecated ?? "",
  });
  const set = (part: Partial<typeof draft>) => setDraft({ ...draft, ...part });
  async function save(): Promise<void> {
    const tags = draft.tags.split(/[,，、]/).map((tag) => tag.trim()).filter(Boolean);
    const body = { description: draft.description || null, tags, visibility: draft.visibility, deprecated: draft.deprecated || null };
    await request("PUT", withQuery(`/v1/resources/${encodeURIComponent(of.id)}`, { tenant }), body, { "If-Match": `"${of.version.digest}"` });
    toast(t.detailsSaved);
    onSaved();
  }
  const line = (key: "description" | "tags" | "deprecated", label: string, hint?: string) => (
    <Field label={label} hint={hint}>
      {(control) => <input {...control} type="text" dir="auto" autocomplete="off" value={draft[key]} onInput={(event) => set({ [key]: event.currentTarget.value })} />}
    </Field>
  );
  return (
    <Section title={t.details}>
      <Form submit={t.save} onSubmit={save}>
        {line("description", t.description)}
        {line("tags", t.tags, t.tagsHint)}
        <Field label={t.visibility} hint={may("resources:publish") ? undefined : t.needs("resources:publish")}>
          {(control) => (
            <select {...control} value={draft.visibility} disabled={!may("resources:publish")} onChange={(event) => set({ visibility: event.currentTarget.value as typeof draft.visibility })}>
              <option value="private">{t.private}</option>
              <option value="public">{t.public}</option>
            </select>
          )}
        </Field>
        {line("deprecated", t.deprecation, t.deprecationHint)}
      </Form>
    </Section>
  );
}
