import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Memory } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import { identity } from "../../link/who.ts";
import type { PageProps } from "../../routes.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import "../../style/people.css";
import { Button } from "../../ui/button.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Prose, Section } from "../../ui/parts.tsx";
import { Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { attempt, toast } from "../../ui/toast.tsx";
import { when } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";

const TEXT_MAX = 500;

/** What agents remember: seen, changed, kept and deleted by the people whom it is about. */
export default function Memories({ query, go }: PageProps): JSX.Element {
  const text = peopleWords.value;
  const containers = useList<{ containerId: string }>("/v1/containers?limit=100");
  const names = containers.data?.map(({ containerId }) => containerId);
  // Before the first conversation there is no container: the first memory makes it.
  const container = query["container"] ?? identity.value?.containers?.[0] ?? (names !== undefined ? (names[0] ?? "default") : undefined);
  const path = container === undefined ? undefined : `/v1/containers/${encodeURIComponent(container)}/memories`;
  const memories = useData<{ items: Memory[] }>(path);
  const [edited, setEdited] = useState<Memory | undefined>(undefined);
  const pathOf = ({ memoryId }: Memory) => `${path}/${encodeURIComponent(memoryId)}`;
  async function put(memory: Memory, change: Partial<Memory>): Promise<void> {
    await request("PUT", pathOf(memory), { text: memory.text, pinned: memory.pinned ?? false, ...change });
    await memories.reload();
  }
  async function remove(memory: Memory): Promise<void> {
    await request("DELETE", pathOf(memory));
    await memories.reload();
    if (!memory.proposed) toast(text.memoryDone, { label: text.memoryUndo, run: () => attempt(put(memory, {})) });
  }
  return (
    <Page title={words.value.pages.memories}>
      <p class="hint"><Prose text={text.memoryHint} /></p>
      {names !== undefined && names.length > 1 && (
        <div class="filters">
          <Field label={text.container}>
            {(control) => (
              <select {...control} value={container} onChange={(event) => go(withQuery("/me/memories", { container: event.currentTarget.value }))}>
                {names.map((name) => <option key={name} value={name}>{name}</option>)}
              </select>
            )}
          </Field>
        </div>
      )}
      {path !== undefined && (
        <>
          <Shown of={memories}>
            {({ items }) =>
              items.length === 0 ? (
                <p class="empty">{text.memoryNone}</p>
              ) : (
                <Table
                  label={words.value.pages.memories}
                  rows={items}
                  keyOf={({ memoryId }) => memoryId}
                  columns={[
                    { head: text.memoryText, cell: (memory) => <Note memory={memory} /> },
                    { head: text.memoryAuthor, cell: ({ by }) => text.memoryBy[by] ?? by },
                    { head: text.created, cell: ({ updatedAt }) => <time>{when(updatedAt, language.value, Date.now())}</time> },
                    {
                      head: text.actions,
                      cell: (memory) => (
                        <span class="row-tools">
                          {memory.proposed ? (
                            <Button onClick={() => attempt(put(memory, {}))}>{text.memoryKeep}</Button>
                          ) : (
                            <Button onClick={() => attempt(put(memory, { pinned: !memory.pinned }))}>{memory.pinned ? text.memoryUnpin : text.memoryPin}</Button>
                          )}
                          <Button onClick={() => setEdited(memory)}>{text.memoryEdit}</Button>
                          <Button onClick={() => attempt(remove(memory))}>{text.memoryDelete}</Button>
                        </span>
                      ),
                    },
                  ]}
                />
              )
            }
          </Shown>
          <Editor
            key={edited?.memoryId ?? ""}
            memory={edited}
            onSave={async (written) => {
              if (edited === undefined) await request("POST", path, { text: written });
              else await put(edited, { text: written });
              setEdited(undefined);
              await memories.reload();
            }}
            onCancel={() => setEdited(undefined)}
          />
        </>
      )}
    </Page>
  );
}

function Note({ memory }: { memory: Memory }): JSX.Element {
  const text = peopleWords.value;
  return (
    <>
      <span dir="auto">{memory.text}</span>
      {memory.proposed && <p class="warn">{text.memoryProposed}</p>}
      {memory.pinned && <p class="hint">{text.memoryPinned}</p>}
      {memory.sessionId !== undefined && <p class="hint"><a href={`/c/${encodeURIComponent(memory.sessionId)}`}>{text.memorySource}</a></p>}
    </>
  );
}

interface EditorProps {
  memory: Memory | undefined;
  onSave: (written: string) => Promise<void>;
  onCancel: () => void;
}

/** Writes a new memory, or another text of one. */
function Editor({ memory, onSave, onCancel }: EditorProps): JSX.Element {
  const text = peopleWords.value;
  const [written, setWritten] = useState(memory?.text ?? "");
  const save = async () => {
    await onSave(written.trim());
    setWritten("");
  };
  return (
    <Section title={memory === undefined ? text.memoryAdd : text.memoryEdit}>
      <Form submit={memory === undefined ? text.add : text.save} disabled={written.trim() === ""} onSubmit={save} onCancel={memory === undefined ? undefined : onCancel}>
        <Field label={text.memoryText}>
          {(control) => <input {...control} type="text" dir="auto" maxLength={TEXT_MAX} autocomplete="off" value={written} onInput={(event) => setWritten(event.currentTarget.value)} />}
        </Field>
      </Form>
    </Section>
  );
}
