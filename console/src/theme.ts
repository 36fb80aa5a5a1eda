/** Light or dark: as the system says, until the user chooses. */

const STORED = "avm.theme";

/** Uses the theme of the last visit, then that which is chosen in another tab. */
export function startTheme(): void {
  show(localStorage.getItem(STORED));
  addEventListener("storage", ({ key, newValue }) => key === STORED && show(newValue));
}

function show(theme: string | null): void {
  if (theme === "light" || theme === "dark") document.documentElement.dataset["theme"] = theme;
  else delete document.documentElement.dataset["theme"];
}

/** Follows the system if no theme is named. */
export function setTheme(theme: "light" | "dark" | undefined): void {
  show(theme ?? null);
  if (theme === undefined) localStorage.removeItem(STORED);
  else localStorage.setItem(STORED, theme);
}

/** Changes to the other theme, and returns it. */
export function changeTheme(): "light" | "dark" {
  const root = document.documentElement;
  const isDark = root.dataset["theme"] === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : root.dataset["theme"] === "dark";
  const theme = isDark ? "light" : "dark";
  setTheme(theme);
  return theme;
}
