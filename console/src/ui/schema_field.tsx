import type { JSX } from "preact";
import { builderWords } from "../words/builder/index.ts";
import { CodeField } from "./code_field.tsx";
import { Field } from "./form.tsx";

/** A JSON Schema as it is written, which may be none yet. */
export function SchemaField({ text, onInput }: { text: string; onInput: (text: string) => void }): JSX.Element {
  const t = builderWords.value;
  return (
    <Field label={t.answerSchema} hint={t.answerSchemaHint} error={isSchema(text) ? undefined : t.answerSchemaWrong}>
      {(control) => <CodeField control={control} value={text} onInput={onInput} />}
    </Field>
  );
}

/** Whether a text is a JSON object, or empty. */
export function isSchema(text: string): boolean {
  try {
    return text.trim() === "" || schemaOf(text) !== undefined;
  } catch {
    return false;
  }
}

/** The object that a text is; none for another value. */
export function schemaOf(text: string): Record<string, unknown> | undefined {
  const value: unknown = JSON.parse(text);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
}
