import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Markdown } from "../markdown/view.tsx";
import type { OpenConversation } from "../state/conversation.ts";
import type { Item, Rewind } from "../state/fold.ts";
import { IconButton } from "../ui/button.tsx";
import { attempt } from "../ui/toast.tsx";
import { clock } from "../words/format.ts";
import { language, words } from "../words/index.ts";

/** Messages that were taken back, folded. They are read when somebody wants to see them, and a new conversation can go on from one. */
export function TakenBack({ rewind, open, go }: { rewind: Rewind; open: OpenConversation; go: (path: string) => void }): JSX.Element {
  const [items, setItems] = useState<Item[] | undefined>(undefined);
  const load = () => {
    if (items === undefined) attempt(open.takenBack(rewind.rewindId).then(setItems));
  };
  return (
    <details class="taken" onToggle={load}>
      <summary>
        {words.value.takenBack(rewind.messages)} · <time>{clock(rewind.rewoundAt, language.value)}</time>
      </summary>
      {items?.map((item) => (
        <div key={item.id} class={`taken-item taken-${item.kind}`}>
          <div class="taken-text" dir="auto">
            {item.kind === "answer" ? <Markdown text={item.text} /> : item.kind === "tool" ? <code>{item.name}</code> : item.text}
          </div>
          {item.kind !== "tool" && (
            <IconButton icon="fork" label={words.value.forkHere} onClick={() => attempt(open.fork(item.id).then((id) => go(`/c/${id}`)))} />
          )}
        </div>
      ))}
    </details>
  );
}
