import type { JSX } from "preact";
import { isOpenTo, routes } from "../routes.ts";
import { Button } from "../ui/button.tsx";
import { AREA_KEYS, KEYS, singleKeys } from "../ui/keys.ts";
import { Modal } from "../ui/modal.tsx";
import { words } from "../words/index.ts";

/** The keys of the console. */
export default function KeyList({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Modal label={words.value.keys} onClose={onClose}>
      {(close) => (
        <>
          <h2 tabIndex={-1} autofocus>{words.value.keys}</h2>
          <dl class="keys">
            {KEYS.map(([keys, word]) => (
              <div key={keys}>
                <dt>
                  <kbd>{keys}</kbd>
                </dt>
                <dd>{words.value[word]}</dd>
              </div>
            ))}
            {Object.entries(AREA_KEYS).filter(([, path]) => isOpenTo(path)).map(([letter, path]) => (
              <div key={path}>
                <dt>
                  <kbd>g</kbd> <kbd>{letter}</kbd>
                </dt>
                <dd>{words.value.pages[routes.find((route) => route.path === path)?.name ?? "home"]}</dd>
              </div>
            ))}
          </dl>
          <label class="check">
            <input type="checkbox" defaultChecked={singleKeys.get()} onChange={(event) => singleKeys.set(event.currentTarget.checked)} />
            {words.value.singleKeys}
          </label>
          <Button onClick={close}>{words.value.close}</Button>
        </>
      )}
    </Modal>
  );
}
