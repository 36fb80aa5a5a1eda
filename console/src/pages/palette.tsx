import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { identity, signOut } from "../link/who.ts";
import { mayOpen, routes } from "../routes.ts";
import { type Line, linesOf, stepped } from "../state/palette.ts";
import { sessions } from "../state/sessions.ts";
import { attempt } from "../ui/toast.tsx";
import { chooseLanguage, chooseTheme } from "../state/preferences.ts";
import { Icon, type IconName } from "../ui/icons.tsx";
import { Modal } from "../ui/modal.tsx";
import { language, words } from "../words/index.ts";

interface Props {
  go: (path: string) => void;
  onKeys: () => void;
  onClose: () => void;
}

interface Command extends Line {
  icon: IconName;
  run: () => void;
}

/** Conversations and commands, found by typing. */
export default function Palette({ go, onKeys, onClose }: Props): JSX.Element {
  const [text, setText] = useState("");
  const [place, setPlace] = useState(0);
  const commands = commandsOf({ go, onKeys, onClose });
  const lines: Line[] = linesOf(text, sessions.value ?? [], commands, words.value.untitled);
  if (text.trim() !== "") lines.push({ id: "find", label: words.value.searchFor(text.trim()), kind: "command" });
  const iconOf = (line: Line): IconName =>
    line.kind === "conversation" ? "chat" : (commands.find((command) => command.id === line.id)?.icon ?? "search");

  function run(line: Line | undefined, close: () => void): void {
    if (line === undefined) return;
    close();
    if (line.kind === "conversation") go(`/c/${line.id}`);
    else if (line.id === "find") go(`/search?q=${encodeURIComponent(text.trim())}`);
    else commands.find((command) => command.id === line.id)?.run();
  }
  function onKeyDown(event: KeyboardEvent, close: () => void): void {
    if (event.isComposing || event.keyCode === 229) return;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      const next = stepped(place, step, lines.length);
      setPlace(next);
      document.getElementById(`line-${next}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(lines[place], close);
    }
  }
  return (
    <Modal label={words.value.commands} className="palette" onClose={onClose}>
      {(close) => (
        <>
          <input
            type="text"
            role="combobox"
            aria-expanded="true"
            aria-controls="palette-lines"
            aria-activedescendant={lines.length === 0 ? undefined : `line-${place}`}
            aria-label={words.value.commands}
            placeholder={words.value.keyPalette}
            autocomplete="off"
            value={text}
            onInput={(event) => {
              setText(event.currentTarget.value);
              setPlace(0);
            }}
            onKeyDown={(event) => onKeyDown(event, close)}
          />
          <div id="palette-lines" role="listbox" aria-label={words.value.commands}>
            {lines.map((line, index) => (
              // The field keeps the focus and takes the keys.
              // oxlint-disable-next-line click-events-have-key-events
              <div key={line.id} id={`line-${index}`} role="option" class="line" aria-selected={index === place} onClick={() => run(line, close)}>
                <Icon name={iconOf(line)} />
                <span dir="auto">{line.label}</span>
              </div>
            ))}
          </div>
        </>
      )}
    </Modal>
  );
}

function commandsOf({ go, onKeys }: Props): Command[] {
  const command = (id: string, icon: IconName, label: string, run: () => void): Command => ({ id, icon, label, run, kind: "command" });
  const other = language.value === "zh" ? "en" : "zh";
  return [
    command("new", "plus", words.value.newChat, () => go("/")),
    command("search", "search", words.value.search, () => go("/search")),
    command("archive", "archive", words.value.archived, () => go("/archive")),
    ...routes
      .filter((route) => !route.path.includes(":") && mayOpen(route))
      .map((route) => command(route.path, routes.find(({ area, icon }) => area === route.area && icon !== undefined)?.icon ?? "list", words.value.pages[route.name], () => go(route.path))),
    command("language", "language", words.value.language, () => attempt(chooseLanguage(other))),
    command("theme", "theme", words.value.theme, () => attempt(chooseTheme())),
    command("keys", "keys", words.value.keys, onKeys),
    ...(identity.value?.auth === "on" ? [command("out", "out", words.value.signOut, () => void signOut())] : []),
  ];
}
