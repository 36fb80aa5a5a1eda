import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { CollectionView } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import { addressOf } from "../../state/collection.ts";
import { useList, withQuery } from "../../state/data.ts";
import { Button } from "../../ui/button.tsx";
import { Confirm } from "../../ui/form.tsx";
import { Section } from "../../ui/parts.tsx";
import { More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { words } from "../../words/index.ts";
import { bytes } from "../../words/measure.ts";

interface Going {
  collection: CollectionView;
  isWhole: boolean;
}

/** The collections of the tenant: their earlier revisions, and they themselves, can be deleted. */
export function Collections({ tenant }: { tenant: string | undefined }): JSX.Element | null {
  const t = builderWords.value;
  const list = useList<CollectionView>(withQuery("/v1/collections", { tenant, limit: 50 }));
  const [going, setGoing] = useState<Going | undefined>(undefined);
  async function remove({ collection: { collectionId, revision }, isWhole }: Going): Promise<void> {
    const address = addressOf(collectionId);
    if (isWhole) await request("DELETE", withQuery(address, { tenant }));
    else await request("POST", withQuery(`${address}/forget`, { tenant }), { before: revision });
    await list.reload();
  }
  if (list.data?.length === 0) return null;
  return (
    <Section title={t.collections}>
      <Shown of={list}>
        {(rows) => (
          <>
            <Table
              label={t.collections}
              rows={rows}
              keyOf={({ collectionId }) => collectionId}
              columns={[
                { head: t.name, cell: ({ collectionId }) => <code dir="auto">{collectionId}</code> },
                { head: t.knowledgeDocuments, isFigure: true, cell: ({ documents }) => documents },
                { head: t.knowledgeSize, isFigure: true, cell: (collection) => bytes(collection.bytes) },
                {
                  head: t.knowledgeRemove,
                  cell: (collection) => (
                    <span class="row-tools">
                      {collection.oldest < collection.revision && <Button onClick={() => setGoing({ collection, isWhole: false })}>{t.collectionForget}</Button>}
                      <Button onClick={() => setGoing({ collection, isWhole: true })}>{t.knowledgeRemove}</Button>
                    </span>
                  ),
                },
              ]}
            />
            <More more={list.more} />
          </>
        )}
      </Shown>
      {going !== undefined && (
        <Confirm
          title={`${going.isWhole ? t.knowledgeRemove : t.collectionForget}${words.value.colon}${going.collection.collectionId}`}
          submit={going.isWhole ? t.knowledgeRemove : t.collectionForget}
          onConfirm={() => remove(going)}
          onClose={() => setGoing(undefined)}
        >
          <p>{going.isWhole ? t.collectionDeleteAbout : t.collectionForgetAbout}</p>
        </Confirm>
      )}
    </Section>
  );
}
