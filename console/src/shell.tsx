import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { linkState } from "./link/socket.ts";
import { hasExpired, identity, signOut } from "./link/who.ts";
import { Chat } from "./pages/chat.tsx";
import { Forbidden, NotThere } from "./pages/not_there.tsx";
import Palette from "./pages/palette.tsx";
import { SessionList } from "./pages/session_list.tsx";
import { findPage, isOpenTo, mayOpen, navigation, routes } from "./routes.ts";
import { withQuery } from "./state/data.ts";
import { watchDrafts } from "./state/drafts.ts";
import { chooseLanguage, chooseTheme } from "./state/preferences.ts";
import { neighbour, watchSessions } from "./state/sessions.ts";
import { Icon } from "./ui/icons.tsx";
import { IconButton } from "./ui/button.tsx";
import { areaReader, commandOf, singleKeys } from "./ui/keys.ts";
import { latePage, latePart } from "./ui/late.tsx";
import { attempt, Toast } from "./ui/toast.tsx";
import { language, words } from "./words/index.ts";

const Devices = latePart(() => import("./pages/devices.tsx"));
const TurnPanel = latePart(() => import("./pages/turn_panel.tsx"));
const Search = latePage(() => import("./pages/search.tsx"));
const Archive = latePage(() => import("./pages/archive.tsx"));
const KeyList = latePart(() => import("./pages/key_list.tsx"));
const AreaSheet = latePart(() => import("./pages/area_sheet.tsx"));
const pages = new Map(routes.map((route) => [route, latePage(route.load)]));

/** Controls in which a letter is a letter. */
const WRITTEN_IN = "input, textarea, select";

/** Pages beside the list of conversations. */
const LISTED = new Set(["/search", "/archive"]);

/** The frame of all pages: rail, list, page. */
export function Shell(): JSX.Element {
  const { path, url, query, route } = useLocation();
  const named = useNamedMessage(url);
  const overlay = useSignal<"palette" | "keys" | "areas" | undefined>(undefined);
  const sessionId = /^\/c\/([\w-]+)$/.exec(path)?.[1];
  const isChat = path === "/" || sessionId !== undefined;
  const turnId = sessionId === undefined ? undefined : query["turn"];
  const place = path === "/" ? "home" : isChat ? "chat" : LISTED.has(path) ? "page" : "area";
  useEffect(() => watchSessions(), []);
  useEffect(() => watchDrafts(), []);

  // Before the page is painted: a key that follows at once is meant for it.
  useLayoutEffect(() => {
    const readArea = areaReader();
    function onKeyDown(event: KeyboardEvent): void {
      const isWriting = event.target instanceof HTMLElement && event.target.matches(WRITTEN_IN);
      const area = overlay.value === undefined ? readArea(event, isWriting, singleKeys.get()) : undefined;
      if (area !== undefined && isOpenTo(area)) route(area);
      const command = commandOf(event, isWriting, singleKeys.get());
      if (command === undefined) return;
      event.preventDefault();
      if (command === "palette" || command === "keys") overlay.value = overlay.value === undefined ? command : overlay.value;
      else if (overlay.value === undefined) walk(command);
    }
    function walk(command: "newChat" | "previous" | "next"): void {
      const next = command === "newChat" ? undefined : neighbour(sessionId, command === "next" ? 1 : -1);
      if (command === "newChat") route("/");
      else if (next !== undefined) route(`/c/${next}`);
    }
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [sessionId]);

  return (
    <div class={`shell at-${place}${turnId === undefined ? "" : " has-panel"}`} hidden={hasExpired.value}>
      <a class="skip" href="#page">{words.value.skip}</a>
      <Rail path={path} tenant={query["tenant"]} onCommands={() => (overlay.value = "palette")} onAreas={() => (overlay.value = "areas")} />
      {place !== "area" && <SessionList open={sessionId} onNew={() => route("/")} />}
      <div class="page-holder" id="page" tabIndex={-1}>
        {linkState.value === "waiting" && <p class="banner" role="status">{words.value.offline}</p>}
        {path === "/search" ? (
          <Search query={query} go={route} />
        ) : path === "/archive" ? (
          <Archive />
        ) : isChat ? (
          <Chat sessionId={sessionId} named={named} go={route} />
        ) : (
          <AreaPage path={path} query={query} go={route} />
        )}
      </div>
      {turnId !== undefined && <TurnPanel key={turnId} turnId={turnId} onClose={() => route(`/c/${sessionId}`)} />}
      {overlay.value === "palette" && (
        <Palette go={route} onKeys={() => (overlay.value = "keys")} onClose={() => (overlay.value = overlay.value === "palette" ? undefined : overlay.value)} />
      )}
      {overlay.value === "areas" && <AreaSheet path={path} tenant={query["tenant"]} onKeys={() => (overlay.value = "keys")} onClose={() => (overlay.value = overlay.value === "areas" ? undefined : overlay.value)} />}
      {overlay.value === "keys" && <KeyList onClose={() => (overlay.value = undefined)} />}
      <Toast />
    </div>
  );
}

/** The page of an address outside the conversations, if the user may open it. */
function AreaPage({ path, query, go }: { path: string; query: Record<string, string>; go: (path: string, replace?: boolean) => void }): JSX.Element {
  const found = findPage(path);
  if (found === undefined) return <NotThere />;
  const { route, params } = found;
  if (!mayOpen(route)) return <Forbidden title={words.value.pages[route.name]} needs={route.needs ?? []} />;
  const Drawn = pages.get(route)!;
  return <Drawn key={route.path} params={params} query={query} go={go} />;
}

/** The message that the part of the address after # names. */
function useNamedMessage(url: string): string {
  const [named, setNamed] = useState(location.hash.slice(1));
  useEffect(() => {
    const read = () => setNamed(location.hash.slice(1));
    read();
    window.addEventListener("hashchange", read);
    return () => window.removeEventListener("hashchange", read);
  }, [url]);
  return named === "page" ? "" : named;
}

interface RailProps {
  path: string;
  tenant: string | undefined;
  onCommands: () => void;
  onAreas: () => void;
}

/** The navigation. A phone has a bar of four, whose last opens the rest. */
function Rail({ path, tenant, onCommands, onAreas }: RailProps): JSX.Element {
  const [isListing, list] = useState(false);
  const other = language.value === "zh" ? "en" : "zh";
  const here = findPage(path)?.route.area;
  const isAt = (isHere: boolean) => (isHere ? "page" : undefined);
  return (
    <nav class="rail" aria-label="AgentVM">
      <a href="/" class="logo" aria-label="AgentVM"><img src="/icon.svg" alt="" width="26" height="26" /></a>
      <a href="/" class="btn-icon" data-short={words.value.chatShort} aria-label={words.value.chat} title={words.value.chat} aria-current={isAt(path === "/" || path.startsWith("/c/") || here === "home")}>
        <Icon name="chat" />
      </a>
      <a href="/search" class="btn-icon" data-short={words.value.searchShort} aria-label={words.value.search} title={words.value.search} aria-current={isAt(path === "/search")}>
        <Icon name="search" />
      </a>
      {navigation().map(({ path: start, name, icon, area }) => (
        <a
          key={start}
          href={withQuery(start, { tenant })}
          class="btn-icon only-wide"
          aria-label={words.value.pages[name]}
          title={words.value.pages[name]}
          aria-current={isAt(here === area)}
        >
          <Icon name={icon!} />
        </a>
      ))}
      <IconButton icon="command" label={words.value.commands} onClick={onCommands} />
      <button type="button" class="btn-icon only-narrow" aria-label={words.value.areas} title={words.value.areas} aria-current={isAt(here !== undefined && here !== "home")} onClick={onAreas}>
        <Icon name="more" />
      </button>
      <span class="rail-space" />
      <button type="button" class="btn-quiet only-wide" lang={other === "zh" ? "zh-CN" : "en"} onClick={() => attempt(chooseLanguage(other))}>
        {words.value.language}
      </button>
      <span class="only-wide"><IconButton icon="theme" label={words.value.theme} onClick={() => attempt(chooseTheme())} /></span>
      {identity.value?.auth === "on" && (
        <>
          <span class="only-wide"><IconButton icon="devices" label={words.value.devices} onClick={() => list(true)} /></span>
          <span class="only-wide"><IconButton icon="out" label={words.value.signOut} onClick={() => attempt(signOut())} /></span>
        </>
      )}
      {isListing && <Devices onClose={() => list(false)} />}
    </nav>
  );
}
