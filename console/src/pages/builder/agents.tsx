import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { may, type PageProps } from "../../routes.ts";
import { nameOf } from "../../state/agents.ts";
import type { Definition, Image } from "../../state/builder.ts";
import { useList, withQuery } from "../../state/data.ts";
import "../../style/builder.css";
import { Button } from "../../ui/button.tsx";
import { Page } from "../../ui/page.tsx";
import { Section } from "../../ui/parts.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { when } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { LoadDialog } from "./load_dialog.tsx";

const SHIPPED = "resource://agents/system/";

/** The agents that were built, and those that one can begin with. */
export default function Agents({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const t = builderWords.value;
  const images = useList<Image>(withQuery("/v1/images", { tenant, limit: 100 }));
  const definitions = useList<Definition>(withQuery("/v1/definitions", { tenant, limit: 100 }));
  const [isLoading, setLoading] = useState(false);
  const tools = may("images:write") && (
    <div class="bars">
      <Button onClick={() => setLoading(true)}>{t.imageLoad}</Button>
      <a class="btn btn-ink" href={withQuery("/agents/new", { tenant })}>{t.newAgent}</a>
    </div>
  );
  return (
    <Page title={words.value.pages.agents} tools={tools}>
      {isLoading && <LoadDialog tenant={tenant} onDone={(image) => go(withQuery(`/agents/${image.imageId}`, { tenant }))} onClose={() => setLoading(false)} />}
      <Section title={t.ownAgents}>
        <Shown of={images}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty>{t.noImages}</Empty>
            ) : (
              <>
                <Table
                  label={t.ownAgents}
                  rows={rows}
                  keyOf={(image) => image.imageId}
                  columns={[
                    { head: t.name, cell: (image) => <a href={withQuery(`/agents/${image.imageId}`, { tenant })} dir="auto">{nameOf(image, words.value.agentNames) ?? words.value.agent}</a> },
                    { head: t.origin, cell: (image) => <span dir="auto">{image.definitionName}</span> },
                    { head: t.container, cell: (image) => image.containerId },
                    { head: t.state, cell: (image) => (image.online ? <span class="state"><span class="dot" />{t.online}</span> : <span class="hint">{t.asleep}</span>) },
                    { head: t.versions, isFigure: true, cell: (image) => image.lock?.length ?? 0 },
                    { head: t.behind, cell: (image) => (image.behind ? <a href={withQuery(`/agents/${image.imageId}`, { tenant, upgrade: "1" })}>{t.behindBy(image.behind)}</a> : <span class="hint">{t.upToDate}</span>) },
                    { head: t.changed, cell: (image) => when(image.updatedAt, language.value, Date.now()) },
                  ]}
                />
                <More more={images.more} />
              </>
            )
          }
        </Shown>
      </Section>
      <Section title={t.templates}>
        <Shown of={definitions}>
          {(rows) => (
            <>
              <Table
                label={t.templates}
                rows={rows}
                keyOf={(definition) => definition.uri ?? definition.name}
                columns={[
                  { head: t.name, cell: ({ name, uri }) => (uri === undefined ? <span dir="auto">{name}</span> : <a href={withQuery(`/resources/${encodeURIComponent(uri)}`, { tenant })} dir="auto">{name}</a>) },
                  { head: t.description, isText: true, cell: ({ description }) => <span dir="auto">{description}</span> },
                  { head: t.origin, cell: ({ uri }) => <span class="hint whole">{uri === undefined ? t.runTime : uri.startsWith(SHIPPED) ? t.shipped : t.ownResource}</span> },
                  ...(may("images:write") ? [{ head: t.newAgent, cell: ({ name, uri }: Definition) => <a href={withQuery("/agents/new", { tenant, from: uri ?? name })} aria-label={`${t.copyToBegin}${words.value.colon}${name}`}>{t.copyToBegin}</a> }] : []),
                ]}
              />
              <More more={definitions.more} />
            </>
          )}
        </Shown>
      </Section>
    </Page>
  );
}
