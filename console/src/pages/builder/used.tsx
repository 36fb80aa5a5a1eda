import type { JSX } from "preact";
import type { DependencyView as Dependency, DependentsView as Dependents } from "../../link/client.ts";
import { resourcePage, splitUri } from "../../state/builder.ts";
import { useData, withQuery } from "../../state/data.ts";
import { Section } from "../../ui/parts.tsx";
import { Empty, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { words } from "../../words/index.ts";

/** What a version refers to, and everything that is locked to the resource. */
export function Used({ id, version, tenant }: { id: string; version: string | undefined; tenant: string | undefined }): JSX.Element {
  const t = builderWords.value;
  const api = (rest: string, more = {}) => withQuery(`/v1/resources/${encodeURIComponent(id)}${rest}`, { tenant, ...more });
  const down = useData<{ items: Dependency[] }>(api("/dependencies", { version }));
  const up = useData<Dependents>(api("/dependents"));
  return (
    <>
      <Section title={t.dependencies}>
        <Shown of={down}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty>{t.noDependencies}</Empty>
            ) : (
              <Table
                label={t.dependencies}
                rows={items}
                keyOf={(item) => `${item.uri} ${item.resolved}`}
                columns={[
                  { head: words.value.pages.resource, cell: (item) => <a href={resourcePage(splitUri(item.resolved)[0], { tenant })}><code>{item.uri}</code></a> },
                  { head: t.version, cell: (item) => splitUri(item.resolved)[1] },
                ]}
              />
            )
          }
        </Shown>
      </Section>
      <Section title={t.dependents}>
        <Shown of={up}>
          {({ resources, images, imageNames, imageCount, foreign }) =>
            resources.length + imageCount + foreign === 0 ? (
              <Empty>{t.noDependents}</Empty>
            ) : (
              <>
                {imageCount > 0 && <p>{t.images(imageCount)}{foreign > 0 && ` ${t.foreign(foreign)}`}</p>}
                <ul class="lines">
                  {images.map((imageId, index) => <li key={imageId}><a dir="auto" href={withQuery(`/agents/${imageId}`, { tenant })}>{imageNames[index] || imageId}</a></li>)}
                  {resources.map(({ resource, version: of }) => <li key={resource.id + of}><a href={resourcePage(resource.id, { tenant, v: of })}>{resource.uri}@{of}</a></li>)}
                </ul>
              </>
            )
          }
        </Shown>
      </Section>
    </>
  );
}
