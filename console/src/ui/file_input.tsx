import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Control } from "./form.tsx";
import { words } from "../words/index.ts";

interface Props {
  /** What its label gives it. */
  control: Control;
  accept?: string;
  multiple?: boolean;
  /** Whether a whole folder is chosen. */
  isFolder?: boolean;
  onFiles: (files: File[]) => void;
}

const NAMES_SHOWN = 5;

/** Chooses files. The browser's own control speaks the browser's language, so it lies unseen over words of the console. */
export function FileInput({ control, accept, multiple, isFolder, onFiles }: Props): JSX.Element {
  const [names, setNames] = useState<string[]>([]);
  return (
    <span class="chosen">
      <span class="btn" aria-hidden="true">{isFolder ? words.value.chooseFolder : multiple ? words.value.chooseFiles : words.value.chooseFile}</span>
      <span class={names.length === 0 ? "hint" : "chosen-names"} dir="auto">{names.length === 0 ? words.value.noFile : names.length > NAMES_SHOWN ? words.value.filesCount(names.length) : names.join(", ")}</span>
      <input
        {...control}
        type="file"
        accept={accept}
        multiple={multiple}
        {...(isFolder ? { webkitdirectory: true } : {})}
        onChange={(event) => {
          const files = [...(event.currentTarget.files ?? [])];
          setNames(files.map(({ name }) => name));
          onFiles(files);
        }}
      />
    </span>
  );
}
