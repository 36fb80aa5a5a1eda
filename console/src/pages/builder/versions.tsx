import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { resourcePage, type Version } from "../../state/builder.ts";
import { withQuery } from "../../state/data.ts";
import { Button } from "../../ui/button.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Table } from "../../ui/table.tsx";
import { attempt, toast } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { when } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { bytes } from "../../words/measure.ts";
import type { VersionList } from "./resource.tsx";

interface Props {
  id: string;
  list: VersionList;
  tenant: string | undefined;
  mayWrite: boolean;
  onChange: () => void;
}

/** The versions with their tags. */
export function Versions({ id, list, tenant, mayWrite, onChange }: Props): JSX.Element {
  const t = builderWords.value;
  const [tagging, setTagging] = useState<Version | undefined>(undefined);
  const [tag, setTag] = useState("");
  const api = (rest: string) => withQuery(`/v1/resources/${encodeURIComponent(id)}${rest}`, { tenant });
  const tagsOf = (version: string) => Object.entries(list.pointers).filter(([, target]) => target === version).map(([name]) => name);
  const previous = (version: Version) => list.items[list.items.indexOf(version) + 1]?.version;
  const yank = (version: Version) =>
    attempt(request("PUT", api(`/versions/${encodeURIComponent(version.version)}`), { yanked: version.yankedAt === undefined }).then(onChange));
  return (
    <>
      <Table
        label={t.tabs.versions}
        rows={list.items}
        keyOf={(version) => version.version}
        columns={[
          { head: t.version, cell: (version) => <a href={resourcePage(id, { tenant, v: version.version })}>{version.version}</a> },
          { head: t.tag, cell: (version) => <>{tagsOf(version.version).map((name) => <span key={name} class="chip">{name}</span>)}{version.yankedAt !== undefined && <span class="problem"> {t.yanked}</span>}</> },
          { head: t.published, cell: (version) => when(version.createdAt, language.value, Date.now()) },
          { head: t.by, cell: (version) => version.createdBy },
          { head: t.size, isFigure: true, cell: (version) => bytes(version.size) },
          {
            head: t.tabs.compare,
            cell: (version) => previous(version) !== undefined && <a href={resourcePage(id, { tenant, v: version.version, with: previous(version) })}>{previous(version)} → {version.version}</a>,
          },
          ...(mayWrite
            ? [{
                head: t.actions,
                cell: (version: Version) => (
                  <span class="bars">
                    <Button onClick={() => yank(version)}>{version.yankedAt === undefined ? t.yank : t.unyank}</Button>
                    <Button onClick={() => setTagging(version)}>{t.setTag}</Button>
                  </span>
                ),
              }]
            : []),
        ]}
      />
      {tagging !== undefined && (
        <Modal label={t.setTag} onClose={() => setTagging(undefined)}>
          {(close) => (
            <>
              <h2>{t.setTag}{words.value.colon}{tagging.version}</h2>
              <Form
                submit={t.setTag}
                disabled={tag === ""}
                onCancel={close}
                onSubmit={async () => {
                  await request("PUT", api(`/tags/${encodeURIComponent(tag)}`), { version: tagging.version });
                  toast(t.tagged);
                  onChange();
                  close();
                }}
              >
                <Field label={t.tagName}>{(control) => <input {...control} type="text" autocomplete="off" value={tag} onInput={(event) => setTag(event.currentTarget.value)} />}</Field>
              </Form>
            </>
          )}
        </Modal>
      )}
    </>
  );
}
