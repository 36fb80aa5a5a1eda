import type { JSX } from "preact";
import { identity, signOut } from "../link/who.ts";
import { findPage, navigation } from "../routes.ts";
import { withQuery } from "../state/data.ts";
import { chooseLanguage, chooseTheme } from "../state/preferences.ts";
import { Icon, type IconName } from "../ui/icons.tsx";
import { Modal } from "../ui/modal.tsx";
import { attempt } from "../ui/toast.tsx";
import { language, words } from "../words/index.ts";

interface Props {
  path: string;
  tenant: string | undefined;
  onKeys: () => void;
  onClose: () => void;
}

/** All areas that the user may open, and what the navigation of a wide window has beside them. */
export default function AreaSheet({ path, tenant, onKeys, onClose }: Props): JSX.Element {
  const here = findPage(path)?.route.area;
  const other = language.value === "zh" ? "en" : "zh";
  const item = (icon: IconName, label: string, run: () => void, close: () => void) => (
    <button type="button" class="menu-item" onClick={() => { close(); run(); }}>
      <Icon name={icon} />
      {label}
    </button>
  );
  return (
    <Modal label={words.value.areas} className="sheet" onClose={onClose}>
      {(close) => (
        <>
          <nav aria-label={words.value.areas}>
            {navigation().map(({ path: start, name, icon, area }) => (
              <a key={start} class="menu-item" href={withQuery(start, { tenant })} aria-current={area === here ? "page" : undefined} onClick={close}>
                <Icon name={icon!} />
                {words.value.pages[name]}
              </a>
            ))}
            <a class="menu-item" href="/archive" aria-current={path === "/archive" ? "page" : undefined} onClick={close}>
              <Icon name="archive" />
              {words.value.archived}
            </a>
          </nav>
          <div class="sheet-end">
            {item("language", words.value.language, () => attempt(chooseLanguage(other)), close)}
            {item("theme", words.value.theme, () => attempt(chooseTheme()), close)}
            {item("keys", words.value.keys, onKeys, () => undefined)}
            {identity.value?.auth === "on" && item("out", words.value.signOut, () => attempt(signOut()), close)}
            {item("close", words.value.close, () => undefined, close)}
          </div>
        </>
      )}
    </Modal>
  );
}
