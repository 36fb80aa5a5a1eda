import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { Button } from "../../ui/button.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Section } from "../../ui/parts.tsx";
import { attempt, toast } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";

interface Props {
  /** The address of the image. */
  path: string;
  hasKey: boolean;
  onChanged: () => void;
}

/** The key of the provider that pays the model calls of this agent alone. It is written and never read. */
export function OwnKey({ path, hasKey, onChanged }: Props): JSX.Element {
  const t = builderWords.value;
  const [fresh, setFresh] = useState("");
  async function change(updates: Record<string, unknown>, said: string): Promise<void> {
    await request("PUT", path, { updates });
    setFresh("");
    toast(said);
    onChanged();
  }
  return (
    <Section title={t.ownKey}>
      <p class="hint">{t.ownKeyAbout}</p>
      {hasKey && (
        <p>
          {t.ownKeyStored} <Button onClick={() => attempt(change({ clear: ["apiKey"] }, t.ownKeyRemoved))}>{t.ownKeyRemove}</Button>
        </p>
      )}
      <Form submit={t.ownKeySet} disabled={fresh.trim() === ""} onSubmit={() => change({ apiKey: fresh.trim() }, t.ownKeyStored)}>
        <Field label={t.ownKeyNew}>{(control) => <input {...control} type="password" autocomplete="off" value={fresh} onInput={(event) => setFresh(event.currentTarget.value)} />}</Field>
      </Form>
    </Section>
  );
}
