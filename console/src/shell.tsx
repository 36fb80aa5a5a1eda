import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import lazy, { ErrorBoundary } from "preact-iso/lazy";
import { useLocation } from "preact-iso/router";
import { linkState } from "./link/socket.ts";
import { identity, signOut } from "./link/who.ts";
import { Chat } from "./pages/chat.tsx";
import { SessionList } from "./pages/session_list.tsx";
import { watchSessions } from "./state/sessions.ts";
import { changeTheme } from "./theme.ts";
import { Icon } from "./ui/icons.tsx";
import { IconButton } from "./ui/button.tsx";
import { Toast } from "./ui/toast.tsx";
import { language, setLanguage, words } from "./words/index.ts";

const Search = lazy(() => import("./pages/search.tsx"));

/** The frame of all pages: rail, list, page. */
export function Shell(): JSX.Element {
  const { path, query, route } = useLocation();
  useEffect(() => watchSessions(), []);
  const sessionId = /^\/c\/([\w-]+)$/.exec(path)?.[1];
  const place = path === "/search" ? "search" : sessionId === undefined ? "home" : "chat";
  return (
    <div class={`shell at-${place}`}>
      <a class="skip" href="#page">{words.value.message}</a>
      <Rail />
      <SessionList open={sessionId} onNew={() => route("/")} />
      <div class="page-holder" id="page">
        {linkState.value === "waiting" && <p class="banner" role="status">{words.value.offline}</p>}
        <ErrorBoundary>
          {place === "search" ? <Search query={query["q"] ?? ""} go={route} /> : <Chat sessionId={sessionId} go={route} />}
        </ErrorBoundary>
      </div>
      <Toast />
    </div>
  );
}

function Rail(): JSX.Element {
  const other = language.value === "zh" ? "en" : "zh";
  return (
    <nav class="rail" aria-label="AgentVM">
      <a href="/" class="logo" aria-label="AgentVM"><img src="/icon.svg" alt="" width="26" height="26" /></a>
      <a href="/" class="btn-icon" aria-label={words.value.chat} title={words.value.chat}><Icon name="chat" /></a>
      <a href="/search" class="btn-icon" aria-label={words.value.search} title={words.value.search}><Icon name="search" /></a>
      <span class="rail-space" />
      <button type="button" class="btn-quiet" lang={other === "zh" ? "zh-CN" : "en"} onClick={() => void setLanguage(other)}>
        {words.value.language}
      </button>
      <IconButton icon="theme" label={words.value.theme} onClick={changeTheme} />
      {identity.value?.auth === "on" && <IconButton icon="out" label={words.value.signOut} onClick={signOut} />}
    </nav>
  );
}
