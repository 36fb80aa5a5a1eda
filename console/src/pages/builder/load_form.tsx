import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { sendFile } from "../../link/files.ts";
import type { Image } from "../../state/builder.ts";
import { withQuery } from "../../state/data.ts";
import { FileInput } from "../../ui/file_input.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { toast } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";

type Conflict = "fail" | "newVersion";

/** Builds an agent from the file of one. */
export function LoadForm({ tenant, onDone, onCancel }: { tenant: string | undefined; onDone: (image: Image) => void; onCancel?: () => void }): JSX.Element {
  const t = builderWords.value;
  const [file, setFile] = useState<File | undefined>(undefined);
  const [container, setContainer] = useState("");
  const [conflict, setConflict] = useState<Conflict>("fail");
  async function load(): Promise<void> {
    const path = withQuery("/v1/images/load", { tenant, container: container.trim() || undefined, onConflict: conflict });
    const { image, warnings } = await sendFile<{ image: Image; warnings?: string[] }>("POST", path, file!);
    toast([t.imageLoaded(image.name), ...(warnings ?? [])].join(" "));
    onDone(image);
  }
  return (
    <Form submit={t.imageLoad} disabled={file === undefined} onCancel={onCancel} onSubmit={load}>
      <Field label={t.imageFile}>
        {(control) => <FileInput control={control} onFiles={([first]) => setFile(first)} />}
      </Field>
      <Field label={t.container} hint={t.imageContainerHint}>
        {(control) => <input {...control} type="text" dir="auto" value={container} onInput={(event) => setContainer(event.currentTarget.value)} />}
      </Field>
      <Field label={t.importConflict}>
        {(control) => (
          <select {...control} value={conflict} onChange={(event) => setConflict(event.currentTarget.value as Conflict)}>
            {(["fail", "newVersion"] as const).map((each) => <option key={each} value={each}>{t.conflicts[each]}</option>)}
          </select>
        )}
      </Field>
    </Form>
  );
}
