import type { ComponentChildren, JSX } from "preact";
import { useId, useState } from "preact/hooks";
import type { ApiError } from "../link/http.ts";
import { apiError } from "../state/data.ts";
import { words } from "../words/index.ts";
import { Modal } from "./modal.tsx";
import { Failure } from "./shown.tsx";

/** What a label gives its control. */
export interface Control {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": boolean | undefined;
}

interface FieldProps {
  label: string;
  hint?: string;
  error?: string;
  /** Draws the control, which must have the id and, if there is one, the description. */
  children: (control: Control) => ComponentChildren;
}

/** A labelled control with its hint and its error. */
export function Field({ label, hint, error, children }: FieldProps): JSX.Element {
  const id = useId();
  const about = hint !== undefined || error !== undefined ? `${id}-about` : undefined;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, "aria-describedby": about, "aria-invalid": error === undefined ? undefined : true })}
      {about !== undefined && <p id={about} class={error === undefined ? "hint" : "problem"}>{error ?? hint}</p>}
    </div>
  );
}

interface FormProps {
  submit: string;
  /** A refusal is shown in the form, and what was typed stays. */
  onSubmit: () => Promise<unknown>;
  onCancel?: () => void;
  /** The name of the button that leaves the form. */
  leave?: string;
  disabled?: boolean;
  isDanger?: boolean;
  children: ComponentChildren;
}

export function Form({ submit, onSubmit, onCancel, leave, disabled, isDanger, children }: FormProps): JSX.Element {
  const [error, setError] = useState<ApiError | undefined>(undefined);
  const [isBusy, setBusy] = useState(false);
  async function run(): Promise<void> {
    setBusy(true);
    setError(undefined);
    try {
      await onSubmit();
    } catch (thrown) {
      setError(apiError(thrown));
    } finally {
      setBusy(false);
    }
  }
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isBusy) void run();
      }}
    >
      {children}
      {error !== undefined && <Failure error={error} />}
      <div class="form-end">
        {/* A button that is disabled loses the focus, so a busy one only says that it is. */}
        <button type="submit" class={isDanger ? "btn btn-bad" : "btn btn-ink"} disabled={disabled} aria-disabled={isBusy}>{submit}</button>
        {onCancel !== undefined && <button type="button" class="btn" onClick={onCancel}>{leave ?? words.value.cancel}</button>}
      </div>
    </form>
  );
}

interface ConfirmProps {
  title: string;
  children: ComponentChildren;
  submit: string;
  /** What has to be typed before it is done, for what cannot be undone. */
  typed?: string;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
}

/** Asks before something is done that others notice. */
export function Confirm({ title, children, submit, typed, onConfirm, onClose }: ConfirmProps): JSX.Element {
  const [text, setText] = useState("");
  return (
    <Modal label={title} onClose={onClose}>
      {(close) => (
        <>
          <h2>{title}</h2>
          {children}
          <Form submit={submit} isDanger disabled={typed !== undefined && text !== typed} onSubmit={() => onConfirm().then(close)} onCancel={close}>
            {typed !== undefined && (
              <Field label={words.value.typeName(typed)}>
                {(control) => <input {...control} type="text" autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} />}
              </Field>
            )}
          </Form>
        </>
      )}
    </Modal>
  );
}
