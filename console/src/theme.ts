/** Light or dark: as the system says, until the user chooses. */

const STORED = "avm.theme";

export function startTheme(): void {
  const stored = localStorage.getItem(STORED);
  if (stored === "light" || stored === "dark") document.documentElement.dataset["theme"] = stored;
}

/** Follows the system if no theme is named. */
export function setTheme(theme: "light" | "dark" | undefined): void {
  const root = document.documentElement;
  if (theme === undefined) {
    delete root.dataset["theme"];
    localStorage.removeItem(STORED);
  } else {
    root.dataset["theme"] = theme;
    localStorage.setItem(STORED, theme);
  }
}

/** Changes to the other theme, and returns it. */
export function changeTheme(): "light" | "dark" {
  const root = document.documentElement;
  const isDark = root.dataset["theme"] === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : root.dataset["theme"] === "dark";
  const theme = isDark ? "light" : "dark";
  setTheme(theme);
  return theme;
}
