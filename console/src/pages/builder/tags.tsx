import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { may } from "../../routes.ts";
import { useData, withQuery } from "../../state/data.ts";
import { IconButton } from "../../ui/button.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Section } from "../../ui/parts.tsx";
import { Shown } from "../../ui/shown.tsx";
import { attempt } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";

/** The tags of an agent: names that clients use, and that move from one build to the next. */
export function Tags({ imageId, tenant }: { imageId: string; tenant: string | undefined }): JSX.Element {
  const t = builderWords.value;
  const path = (tag?: string) => withQuery(`/v1/images/${encodeURIComponent(imageId)}/tags${tag === undefined ? "" : `/${encodeURIComponent(tag)}`}`, { tenant });
  const tags = useData<{ tags: string[] }>(path());
  const [fresh, setFresh] = useState("");
  async function set(): Promise<void> {
    await request("PUT", path(fresh.trim()), {});
    setFresh("");
    await tags.reload();
  }
  return (
    <Section title={t.imageTags}>
      <p class="hint">{t.tagsAbout}</p>
      <Shown of={tags}>
        {(shown) => (
          <ul class="lines">
            {shown.tags.map((tag) => (
              <li key={tag}>
                <code>image:{tag}</code>
                {may("images:write") && <IconButton icon="close" label={t.tagRemove(tag)} onClick={() => attempt(request("DELETE", path(tag)).then(() => tags.reload()))} />}
              </li>
            ))}
          </ul>
        )}
      </Shown>
      {may("images:write") && (
        <Form submit={t.tagSet} disabled={fresh.trim() === ""} onSubmit={set}>
          <Field label={t.tagNew}>{(control) => <input {...control} type="text" value={fresh} onInput={(event) => setFresh(event.currentTarget.value)} />}</Field>
        </Form>
      )}
    </Section>
  );
}
