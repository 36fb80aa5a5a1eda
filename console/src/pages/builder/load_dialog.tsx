import type { JSX } from "preact";
import type { Image } from "../../state/builder.ts";
import { Modal } from "../../ui/modal.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { LoadForm } from "./load_form.tsx";

/** The form that builds an agent from the file of one, over the list of agents. */
export function LoadDialog({ tenant, onDone, onClose }: { tenant: string | undefined; onDone: (image: Image) => void; onClose: () => void }): JSX.Element {
  const t = builderWords.value;
  return (
    <Modal label={t.imageLoadTitle} onClose={onClose}>
      {(close) => (
        <>
          <h2>{t.imageLoadTitle}</h2>
          <p class="hint">{t.imageFileAbout}</p>
          <LoadForm
            tenant={tenant}
            onCancel={close}
            onDone={(image) => {
              close();
              onDone(image);
            }}
          />
        </>
      )}
    </Modal>
  );
}
