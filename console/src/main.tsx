/** The start of the console: language, theme, identity, then the page of the address. */

import { effect } from "@preact/signals";
import { render } from "preact";
import lazy, { ErrorBoundary } from "preact-iso/lazy";
import { LocationProvider } from "preact-iso/router";
import { connect, disconnect } from "./link/socket.ts";
import { hasExpired, identify, identifyOffline, identity, watchTabs } from "./link/who.ts";
import { startWorker, watchVersion } from "./link/worker.ts";
import Login from "./pages/login.tsx";
import { Shell } from "./shell.tsx";
import { loadPreferences } from "./state/preferences.ts";
import "./style/index.css";
import { startTheme } from "./theme.ts";
import { startLanguage } from "./words/index.ts";

const RETRY_MS = 2_000;

/** Pages for people who need not be signed in, outside the frame. */
const Accept = lazy(() => import("./pages/people/accept.tsx"));
const Diagnose = lazy(() => import("./pages/people/diagnose.tsx"));

function App() {
  if (location.pathname === "/invitations/accept") return <ErrorBoundary><Accept /></ErrorBoundary>;
  if (identity.value === undefined) return null;
  if (identity.value === null && location.pathname === "/diagnose") {
    return <LocationProvider><ErrorBoundary><Diagnose /></ErrorBoundary></LocationProvider>;
  }
  if (identity.value === null) return <Login />;
  return (
    <>
      {hasExpired.value && <Login />}
      <LocationProvider>
        <Shell />
      </LocationProvider>
    </>
  );
}

async function start(): Promise<void> {
  if (sessionStorage.getItem("avm.count") !== null) await import("./count.ts");
  startTheme();
  watchTabs();
  watchVersion();
  startWorker();
  await startLanguage();
  render(<App />, document.getElementById("app") as HTMLElement);
  for (;;) {
    try {
      await identify();
      break;
    } catch {
      // The server is starting or away: what this browser has kept of the last visit is shown, and asked about when it is back.
      if (identifyOffline()) break;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
  effect(() => (identity.value === null || hasExpired.value ? disconnect() : connect()));
  effect(() => void (identity.value && loadPreferences().catch(() => undefined)));
}

void start();
