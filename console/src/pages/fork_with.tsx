import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { SessionRow } from "../link/frames.ts";
import { agents, loadAgents, names, offered, readable, withImage } from "../state/agents.ts";
import type { OpenConversation } from "../state/conversation.ts";
import { Button } from "../ui/button.tsx";
import { Modal } from "../ui/modal.tsx";
import { attempt, toast } from "../ui/toast.tsx";
import { language, words } from "../words/index.ts";

interface Props {
  open: OpenConversation;
  row: SessionRow;
  go: (path: string) => void;
  onClose: () => void;
}

/** The conversation goes on in a branch that another agent answers. */
export default function ForkWith({ open, row, go, onClose }: Props): JSX.Element {
  useEffect(() => void loadAgents(), []);
  const present = names.value[row.imageId];
  const others = offered(agents.value, language.value).filter(({ name }) => name !== present);
  async function fork(agent: string): Promise<void> {
    const sessionId = await withImage(agent, row.containerId, (imageId) => open.fork(undefined, imageId));
    toast(words.value.forkedNow);
    go(`/c/${sessionId}`);
  }
  return (
    <Modal label={words.value.forkWith} onClose={onClose}>
      {(close) => (
        <>
          <h2>{words.value.forkWith}</h2>
          {others.length === 0 && <p class="empty">{words.value.forkWithNothing}</p>}
          <ul class="agents">
            {others.map(({ name, uri, description }) => (
              <li key={uri ?? name}>
                <button
                  type="button"
                  class="agent"
                  onClick={() => {
                    close();
                    attempt(fork(uri ?? name));
                  }}
                >
                  <strong>{readable(name, words.value.agentNames)}</strong>
                  <span dir="auto">{description}</span>
                </button>
              </li>
            ))}
          </ul>
          <Button onClick={close}>{words.value.cancel}</Button>
        </>
      )}
    </Modal>
  );
}
