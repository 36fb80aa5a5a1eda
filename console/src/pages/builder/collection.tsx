import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { DocumentView } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import { documentAt, documentsOf, sendFiles } from "../../state/collection.ts";
import { useList, withQuery } from "../../state/data.ts";
import { useRefresh } from "../../state/refresh.ts";
import { Button } from "../../ui/button.tsx";
import { FileInput } from "../../ui/file_input.tsx";
import { Confirm, Field, Form } from "../../ui/form.tsx";
import { Section } from "../../ui/parts.tsx";
import { More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { bytes } from "../../words/measure.ts";
import { words } from "../../words/index.ts";

const REFRESH_MS = 2_000;

interface Props {
  /** The collection and the revision of it: `handbook@12`. */
  reference: string;
  tenant: string | undefined;
  mayWrite: boolean;
  /** Publishes a version that refers to another revision. */
  onPublish: (reference: string) => Promise<void>;
}

/** The documents of a collection and how far they are read, and the files that become documents of its next revision. */
export function CollectionDocuments({ reference, tenant, mayWrite, onPublish }: Props): JSX.Element {
  const t = builderWords.value;
  const [collection = "", revision = ""] = reference.split("@");
  const list = useList<DocumentView>(withQuery(documentsOf(collection), { tenant, revision, limit: 50 }));
  const [going, setGoing] = useState<DocumentView | undefined>(undefined);
  useRefresh(() => list.data?.some(({ state }) => state === "waiting") && list.reload(), REFRESH_MS);
  return (
    <Section title={t.knowledgeDocuments}>
      <Shown of={list}>
        {(rows) => (
          <>
            <Table
              label={t.knowledgeDocuments}
              rows={rows}
              keyOf={({ document }) => document}
              columns={[
                { head: t.name, cell: ({ document, title }) => <><code dir="auto">{document}</code>{title !== undefined && <p class="hint" dir="auto">{title}</p>}</> },
                { head: t.collectionState, cell: (document) => <State of={document} /> },
                { head: t.knowledgeSize, isFigure: true, cell: ({ size }) => bytes(size) },
                ...(mayWrite ? [{ head: t.knowledgeRemove, cell: (document: DocumentView) => document.state !== "deleted" && <Button onClick={() => setGoing(document)}>{t.knowledgeRemove}</Button> }] : []),
              ]}
            />
            <More more={list.more} />
          </>
        )}
      </Shown>
      {mayWrite && <Sending key={reference} collection={collection} tenant={tenant} onSent={onPublish} />}
      {going !== undefined && (
        <Confirm
          title={`${t.knowledgeRemove}${words.value.colon}${going.document}`}
          submit={t.knowledgeRemove}
          onConfirm={async () => {
            await request("DELETE", withQuery(documentAt(collection, going.document), { tenant }));
            await list.reload();
          }}
          onClose={() => setGoing(undefined)}
        >
          <p>{t.collectionRemoveAbout}</p>
        </Confirm>
      )}
    </Section>
  );
}

function State({ of: { state, passages, problem } }: { of: DocumentView }): JSX.Element {
  const t = builderWords.value;
  return (
    <>
      {t.collectionStates[state]}
      {state === "indexed" && passages !== undefined && <p class="hint">{t.collectionPassages(passages)}</p>}
      {problem !== undefined && <p class="problem" dir="auto">{problem}</p>}
    </>
  );
}

function Sending({ collection, tenant, onSent }: { collection: string; tenant: string | undefined; onSent: (reference: string) => Promise<void> }): JSX.Element {
  const t = builderWords.value;
  const [files, setFiles] = useState<File[]>([]);
  const [part, setPart] = useState<number | undefined>(undefined);
  async function send(): Promise<void> {
    try {
      await onSent(await sendFiles(collection, files, tenant, setPart));
    } finally {
      setPart(undefined);
    }
  }
  return (
    <Form submit={t.knowledgeUpload} disabled={files.length === 0} onSubmit={send}>
      <Field label={t.knowledgeFiles} hint={t.collectionFilesHint}>
        {(control) => <FileInput control={control} multiple onFiles={setFiles} />}
      </Field>
      <Sent part={part} />
    </Form>
  );
}

/** How much of the files has been sent. */
export function Sent({ part }: { part: number | undefined }): JSX.Element | null {
  return part === undefined ? null : <progress max={1} value={part} aria-label={words.value.sending(Math.round(part * 100))} />;
}
