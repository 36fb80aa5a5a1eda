import type { JSX } from "preact";
import { may, type PageProps } from "../../routes.ts";
import { nameOf } from "../../state/agents.ts";
import { beginningOf, type Image } from "../../state/builder.ts";
import { useList, withQuery } from "../../state/data.ts";
import "../../style/builder.css";
import { Page } from "../../ui/page.tsx";
import { Copyable, Section } from "../../ui/parts.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { words } from "../../words/index.ts";
import { LoadForm } from "./load_form.tsx";

/** Agents as files: saved here, loaded on another server with the same behaviour. */
export default function Portable({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const t = builderWords.value;
  const images = useList<Image>(withQuery("/v1/images", { tenant, limit: 50 }));
  const page = (image: Image) => withQuery(`/agents/${image.imageId}`, { tenant });
  return (
    <Page title={words.value.pages.portable}>
      <p class="hint">{t.imageFileAbout}</p>
      <Section title={t.imageSaveTitle}>
        <Shown of={images}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty action={may("images:write") && <a class="btn btn-ink" href={withQuery("/agents/new", { tenant })}>{t.newAgent}</a>}>{t.noImages}</Empty>
            ) : (
              <>
                <Table
                  label={t.imageSaveTitle}
                  rows={rows}
                  keyOf={({ imageId }) => imageId}
                  columns={[
                    { head: t.name, cell: (image) => <a href={page(image)} dir="auto">{nameOf(image, words.value.agentNames) ?? words.value.agent}</a> },
                    { head: t.container, cell: ({ containerId }) => containerId },
                    { head: t.digest, cell: ({ digest }) => <code class="digest" dir="ltr" title={digest}>{beginningOf(digest)}</code> },
                    { head: t.versions, isFigure: true, cell: ({ lock }) => lock?.length ?? 0 },
                    { head: t.imageFileHead, cell: (image) => <a href={withQuery(`/v1/images/${encodeURIComponent(image.imageId)}/file`, { tenant })} download aria-label={`${t.imageSave}${words.value.colon}${image.name}`}>{t.imageSave}</a> },
                  ]}
                />
                <More more={images.more} />
              </>
            )
          }
        </Shown>
      </Section>
      {may("images:write") && (
        <Section title={t.imageLoadTitle}>
          <LoadForm tenant={tenant} onDone={(image) => go(page(image))} />
        </Section>
      )}
      <Section title={t.imageTransfer}>
        <p class="hint">{t.imageTransferAbout}</p>
        <Copyable text="avm image push IMAGE --to SERVER" />
        <Copyable text="avm image pull IMAGE --from SERVER" />
      </Section>
    </Page>
  );
}
