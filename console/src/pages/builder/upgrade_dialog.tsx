import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type ApiError, request } from "../../link/http.ts";
import type { Upgrade } from "../../state/builder.ts";
import { apiError } from "../../state/data.ts";
import { Button } from "../../ui/button.tsx";
import { Diff } from "../../ui/diff.tsx";
import { Form } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Bones, Failure } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { toast } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { words } from "../../words/index.ts";

/** Shows what an upgrade would change, by a dry run, and applies it. */
export function UpgradeDialog({ path, onDone, onClose }: { path: string; onDone: () => void; onClose: () => void }): JSX.Element {
  const t = builderWords.value;
  const [preview, setPreview] = useState<Upgrade | undefined>(undefined);
  const [error, setError] = useState<ApiError | undefined>(undefined);
  useEffect(() => {
    request<Upgrade>("POST", path, { dryRun: true }).then(setPreview, (thrown: unknown) => setError(apiError(thrown)));
  }, []);
  async function apply(close: () => void): Promise<void> {
    await request<Upgrade>("POST", path, { dryRun: false });
    toast(t.upgraded);
    onDone();
    close();
  }
  return (
    <Modal label={t.upgradeTitle} onClose={onClose} className="modal-wide">
      {(close) => (
        <>
          <h2>{t.upgradeTitle}</h2>
          {error !== undefined && <Failure error={error} />}
          {preview === undefined && error === undefined && <Bones />}
          {preview?.changes.length === 0 && (
            <>
              <p>{t.upgradeNone}</p>
              <Button onClick={close}>{words.value.cancel}</Button>
            </>
          )}
          {preview !== undefined && preview.changes.length > 0 && (
            <>
              <p class="hint">{t.upgradeAbout}</p>
              <Table
                label={t.upgradeTitle}
                rows={preview.changes}
                keyOf={(change) => change.uri}
                columns={[
                  { head: words.value.pages.resource, cell: (change) => <code>{change.uri}</code> },
                  { head: t.compareFrom, cell: (change) => change.from },
                  { head: t.compareTo, cell: (change) => change.to },
                ]}
              />
              {Object.entries(preview.diff).map(([field, { before, after }]) => (
                <div key={field} class="diff-field">
                  <h3>{field}</h3>
                  <Diff label={field} before={readable(before)} after={readable(after)} />
                </div>
              ))}
              {(preview.warnings ?? []).map((warning) => <p key={warning} class="hint">{warning}</p>)}
              <Form submit={t.apply} onSubmit={() => apply(close)} onCancel={close}>{null}</Form>
            </>
          )}
        </>
      )}
    </Modal>
  );
}

const readable = (value: unknown) => (value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 2));
