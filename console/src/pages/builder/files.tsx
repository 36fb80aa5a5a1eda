import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import type { FileVersion, SessionFile as StoredFile } from "../../link/client.ts";
import { filePath, sendFile } from "../../link/files.ts";
import { request } from "../../link/http.ts";
import { may, type PageProps } from "../../routes.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import "../../style/builder.css";
import { Button } from "../../ui/button.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Page } from "../../ui/page.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { NOTHING, Table } from "../../ui/table.tsx";
import { attempt, toast } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { when } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { bytes } from "../../words/measure.ts";

/** The files of a conversation: what its agent works on and what it has written. */
export default function Files({ params, query }: PageProps): JSX.Element {
  const { tenant } = query;
  const t = builderWords.value;
  const session = params["session"] ?? "";
  const api = (rest: string, more = {}) => withQuery(`/v1/sessions/${encodeURIComponent(session)}${rest}`, { tenant, ...more });
  const files = useList<StoredFile>(api("/files", { limit: 100 }));
  const [shown, setShown] = useState<string | undefined>(undefined);
  const picker = useRef<HTMLInputElement>(null);
  const mayWrite = may("agent:use");
  async function upload(list: readonly File[]): Promise<void> {
    for (const file of list) await sendFile("PUT", withQuery(filePath(session, file.name), { tenant }), file);
    toast(t.uploaded(list.length));
    await files.reload();
  }
  async function remove(path: string): Promise<void> {
    await request("DELETE", withQuery(filePath(session, path), { tenant }));
    toast(t.fileDeleted(path));
    await files.reload();
  }
  const tools = (
    <div class="bars">
      {(files.data?.length ?? 0) > 0 && <a class="btn" href={api("/archive")} download={`${session}.zip`}>{t.downloadAll}</a>}
      {mayWrite && <Button primary onClick={() => picker.current?.click()}>{t.upload}</Button>}
      <input
        ref={picker}
        type="file"
        multiple
        hidden
        aria-label={t.upload}
        onChange={(event) => {
          attempt(upload([...(event.currentTarget.files ?? [])]));
          event.currentTarget.value = "";
        }}
      />
    </div>
  );
  return (
    <Page title={words.value.pages.files} tools={tools}>
      <p class="sub"><a href={`/c/${session}`}>{t.openChat}</a></p>
      <Shown of={files}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty>{t.noFiles}</Empty>
          ) : (
            <>
              <Table
                label={t.filesOf}
                rows={rows}
                keyOf={(file) => file.path}
                columns={[
                  { head: t.path, cell: (file) => <a href={withQuery(filePath(session, file.path), { tenant })} download={file.path.split("/").at(-1)} dir="auto">{file.path}</a> },
                  { head: t.size, isFigure: true, cell: (file) => bytes(file.size) },
                  { head: t.changed, cell: (file) => when(file.modifiedAt, language.value, Date.now()) },
                  {
                    head: t.actions,
                    cell: (file) => (
                      <span class="bars">
                        <Button onClick={() => setShown(file.path)}>{t.history}</Button>
                        {mayWrite && <Button onClick={() => attempt(remove(file.path))}>{t.deleteFile}</Button>}
                      </span>
                    ),
                  },
                ]}
              />
              <More more={files.more} />
            </>
          )
        }
      </Shown>
      {shown !== undefined && <History session={session} path={shown} tenant={tenant} onClose={() => setShown(undefined)} />}
    </Page>
  );
}

function History({ session, path, tenant, onClose }: { session: string; path: string; tenant: string | undefined; onClose: () => void }): JSX.Element {
  const t = builderWords.value;
  const versions = useData<{ items: FileVersion[] }>(withQuery(`/v1/sessions/${encodeURIComponent(session)}/file-versions`, { tenant, path }));
  return (
    <Modal label={t.historyOf(path)} onClose={onClose}>
      {(close) => (
        <>
          <h2 dir="auto">{t.historyOf(path)}</h2>
          <Shown of={versions}>
            {({ items }) => (
              <Table
                label={t.historyOf(path)}
                rows={items}
                keyOf={(version) => `${version.changedAt} ${version.digest}`}
                columns={[
                  { head: t.changed, cell: (version) => when(version.changedAt, language.value, Date.now()) },
                  { head: t.by, cell: (version) => (version.messageId === undefined ? t.byUpload : <a href={`/c/${session}#${version.messageId}`}>{t.byMessage}</a>) },
                  { head: t.size, isFigure: true, cell: (version) => (version.size === undefined ? NOTHING : bytes(version.size)) },
                  { head: t.download, cell: (version) => (version.digest === undefined ? t.deletedFile : <a href={withQuery(filePath(session, path), { tenant, digest: version.digest })} download={path.split("/").at(-1)}>{t.download}</a>) },
                ]}
              />
            )}
          </Shown>
          <Button onClick={close}>{t.back}</Button>
        </>
      )}
    </Modal>
  );
}
