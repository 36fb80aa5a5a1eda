import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { KnowledgeContent } from "../../state/knowledge.ts";
import { Field, Form } from "../../ui/form.tsx";
import { builderWords } from "../../words/builder/index.ts";

const SIZE = 800;
const OVERLAP = 100;
const MODES = ["words", "vectors", "both"] as const;

const chunks = (size: number, overlap = Math.min(OVERLAP, size - 1)) => ({ size, overlap });

/** How a knowledge base is cut, searched and used. Figures are texts until they are sent; an empty one is the default. */
export function KnowledgeOptions({ content, onPublish }: { content: KnowledgeContent; onPublish: (changed: KnowledgeContent) => Promise<void> }): JSX.Element {
  const t = builderWords.value;
  const { retrieval, chunking } = content;
  const text = (value: number | undefined) => (value === undefined ? "" : String(value));
  const [inject, setInject] = useState(text(retrieval?.inject));
  const [k, setK] = useState(text(retrieval?.k));
  const [mode, setMode] = useState(retrieval?.mode ?? "words");
  const [size, setSize] = useState(text(chunking?.size));
  const [overlap, setOverlap] = useState(text(chunking?.overlap));
  const figure = (written: string) => (written === "" ? undefined : Number(written));
  const field = (label: string, hint: string, value: string, onInput: (value: string) => void, min: number, max: number) => (
    <Field label={label} hint={hint}>
      {(control) => <input {...control} type="number" inputMode="numeric" min={min} max={max} value={value} onInput={(event) => onInput(event.currentTarget.value)} />}
    </Field>
  );
  return (
    <details class="more-fields">
      <summary>{t.knowledgeOptions}</summary>
      <Form
        submit={t.publish}
        onSubmit={() =>
          onPublish({
            retrieval: { ...retrieval, k: figure(k), inject: figure(inject), mode },
            chunking: size === "" && overlap === "" ? undefined : chunks(figure(size) ?? SIZE, figure(overlap)),
          })
        }
      >
        {field(t.knowledgeInject, t.knowledgeInjectHint, inject, setInject, 0, 20)}
        {field(t.knowledgeK, t.knowledgeKHint, k, setK, 1, 20)}
        <Field label={t.knowledgeMode} hint={t.knowledgeModeHint}>
          {(control) => (
            <select {...control} value={mode} onChange={(event) => setMode(event.currentTarget.value)}>
              {[...new Set([...MODES, mode])].map((name) => <option key={name} value={name}>{t.knowledgeModes[name] ?? name}</option>)}
            </select>
          )}
        </Field>
        {field(t.knowledgeSizeOf, t.knowledgeSizeHint, size, setSize, 50, 100_000)}
        {field(t.knowledgeOverlap, t.knowledgeOverlapHint, overlap, setOverlap, 0, 10_000)}
      </Form>
    </details>
  );
}
