import type { JSX } from "preact";
import type { PageProps } from "../../routes.ts";
import { type Content, resourcePage, TYPES } from "../../state/builder.ts";
import { useData, withQuery } from "../../state/data.ts";
import "../../style/builder.css";
import { Field } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Shown } from "../../ui/shown.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { words } from "../../words/index.ts";
import { NewResourceEditor } from "./resource_editor.tsx";

/** A new resource: empty, or as a copy of another. */
export default function NewResource({ query, go }: PageProps): JSX.Element {
  const { tenant, copy } = query;
  const t = builderWords.value;
  const source = useData<Content>(copy === undefined ? undefined : withQuery(`/v1/resources/${encodeURIComponent(copy)}`, { tenant }));
  const type = query["type"] ?? "prompts";
  const editor = (of: Content | undefined, kind: string) => (
    <NewResourceEditor
      key={kind}
      type={kind}
      copied={of}
      tenant={tenant}
      onPublished={(id) => go(resourcePage(id, { tenant }))}
      onCancel={() => go(withQuery("/resources", { tenant }))}
    />
  );
  return (
    <Page title={words.value.pages.newResource}>
      {copy !== undefined ? (
        <Shown of={source}>{(of) => editor(of, of.resource.type)}</Shown>
      ) : (
        <>
          <div class="filters">
            <Field label={t.type}>
              {(control) => (
                <select {...control} value={type} onChange={(event) => go(withQuery("/resources/new", { tenant, type: event.currentTarget.value }), true)}>
                  {TYPES.map((each) => <option key={each} value={each}>{t.types[each]}</option>)}
                </select>
              )}
            </Field>
          </div>
          {editor(undefined, type)}
        </>
      )}
    </Page>
  );
}
