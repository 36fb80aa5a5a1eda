import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ImportedEntry as Entry } from "../../link/client.ts";
import { withQuery } from "../../state/data.ts";
import { sendFile } from "../../link/files.ts";
import { Button } from "../../ui/button.tsx";
import { FileInput } from "../../ui/file_input.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Table } from "../../ui/table.tsx";
import { toast } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { words } from "../../words/index.ts";

type Conflict = "fail" | "skip" | "newVersion";

/** Imports an archive of resources; first it shows what would happen. */
export function ImportDialog({ tenant, onDone, onClose }: { tenant: string | undefined; onDone: () => void; onClose: () => void }): JSX.Element {
  const t = builderWords.value;
  const [file, setFile] = useState<File | undefined>(undefined);
  const [conflict, setConflict] = useState<Conflict>("fail");
  const [planned, setPlanned] = useState<Entry[] | undefined>(undefined);
  async function send(dryRun: boolean): Promise<Entry[]> {
    const path = withQuery("/v1/resources/import", { tenant, onConflict: conflict, dryRun: String(dryRun) });
    return (await sendFile<{ items: Entry[] }>("POST", path, file!)).items;
  }
  return (
    <Modal label={t.importTitle} onClose={onClose}>
      {(close) => (
        <>
          <h2>{t.importTitle}</h2>
          <Form
            submit={planned === undefined ? t.importCheck : t.importDo}
            disabled={file === undefined}
            onCancel={close}
            onSubmit={async () => {
              if (planned === undefined) {
                setPlanned(await send(true));
                return;
              }
              toast(t.imported((await send(false)).length));
              onDone();
              close();
            }}
          >
            <Field label={t.importFile}>
              {(control) => (
                <FileInput
                  control={control}
                  onFiles={([first]) => {
                    setFile(first);
                    setPlanned(undefined);
                  }}
                />
              )}
            </Field>
            <Field label={t.importConflict}>
              {(control) => (
                <select
                  {...control}
                  value={conflict}
                  onChange={(event) => {
                    setConflict(event.currentTarget.value as Conflict);
                    setPlanned(undefined);
                  }}
                >
                  {(["fail", "skip", "newVersion"] as const).map((each) => <option key={each} value={each}>{t.conflicts[each]}</option>)}
                </select>
              )}
            </Field>
            {planned !== undefined && (
              <Table
                label={t.importTitle}
                rows={planned}
                keyOf={(entry) => entry.uri}
                columns={[{ head: words.value.pages.resource, cell: (entry) => <code>{entry.uri}</code> }, { head: t.result, cell: (entry) => entry.outcome }]}
              />
            )}
            {planned !== undefined && <Button onClick={() => setPlanned(undefined)}>{t.back}</Button>}
          </Form>
        </>
      )}
    </Modal>
  );
}
