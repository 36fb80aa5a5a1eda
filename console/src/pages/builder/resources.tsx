import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { may, type PageProps } from "../../routes.ts";
import { descriptionOf, type Resource, resourcePage, TYPES } from "../../state/builder.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import "../../style/builder.css";
import { Button } from "../../ui/button.tsx";
import { Field } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { when } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { ImportDialog } from "./import_dialog.tsx";

const TYPING_MS = 300;
let typing: ReturnType<typeof setTimeout> | undefined;

/** The resources that the user can see, by type. The filters are in the address. */
export default function Resources({ query, go }: PageProps): JSX.Element {
  const { tenant, type, q, tag, scope } = query;
  const t = builderWords.value;
  const [isImporting, setImporting] = useState(false);
  const path = withQuery("/v1/resources", { tenant, type, q, tag, scope, limit: 50 });
  const list = useList<Resource>(path);
  const total = useData<{ total: number }>(withQuery(path, { limit: 1 })).data?.total;
  const here = (change: Record<string, string>) => withQuery("/resources", { tenant, type, q, tag, scope, ...change });
  function later(change: Record<string, string>): void {
    clearTimeout(typing);
    typing = setTimeout(() => go(here(change), true), TYPING_MS);
  }
  const tools = may("resources:write") && (
    <div class="bars">
      <Button onClick={() => setImporting(true)}>{t.import}</Button>
      <a class="btn btn-ink" href={withQuery("/resources/new", { tenant, type })}>{t.newResource}</a>
    </div>
  );
  return (
    <Page title={words.value.pages.resources} tools={tools}>
      <div class="filters">
        <Field label={t.type}>
          {(control) => (
            <select {...control} value={type ?? ""} onChange={(event) => go(here({ type: event.currentTarget.value }))}>
              <option value="">{t.allTypes}</option>
              {TYPES.map((each) => <option key={each} value={each}>{t.types[each]}</option>)}
            </select>
          )}
        </Field>
        <Field label={t.scope}>
          {(control) => (
            <select {...control} value={scope ?? "all"} onChange={(event) => go(here({ scope: event.currentTarget.value === "all" ? "" : event.currentTarget.value }))}>
              {(["all", "own", "public"] as const).map((each) => <option key={each} value={each}>{t.scopes[each]}</option>)}
            </select>
          )}
        </Field>
        <Field label={t.find}>{(control) => <input {...control} type="search" value={q ?? ""} onInput={(event) => later({ q: event.currentTarget.value })} />}</Field>
        <Field label={t.tag}>{(control) => <input {...control} type="text" autocomplete="off" value={tag ?? ""} onInput={(event) => later({ tag: event.currentTarget.value })} />}</Field>
      </div>
      <Shown of={list}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty action={<a class="btn" href={withQuery("/resources", { tenant })}>{t.clearFilters}</a>}>{t.noResources}</Empty>
          ) : (
            <>
              {total !== undefined && <p class="hint" role="status">{t.total(total)}</p>}
              <Table
                label={words.value.pages.resources}
                rows={rows}
                keyOf={(row) => row.id}
                columns={[
                  { head: t.name, cell: (row) => <a href={resourcePage(row.id, { tenant })} dir="auto">{row.name}</a> },
                  { head: t.type, cell: (row) => <span class="whole">{t.types[row.type] ?? row.type}</span> },
                  { head: t.description, isText: true, cell: (row) => <span dir="auto">{descriptionOf(row, language.value)}{row.deprecated !== undefined && <span class="problem"> {t.deprecated}</span>}</span> },
                  { head: t.owner, cell: (row) => row.owner },
                  { head: t.latest, cell: (row) => row.latest },
                  { head: t.uses, isFigure: true, cell: (row) => row.uses ?? 0 },
                  { head: t.changed, cell: (row) => <time>{when(row.updatedAt, language.value, Date.now())}</time> },
                ]}
              />
              <More more={list.more} />
            </>
          )
        }
      </Shown>
      {isImporting && <ImportDialog tenant={tenant} onDone={() => void list.reload()} onClose={() => setImporting(false)} />}
    </Page>
  );
}
