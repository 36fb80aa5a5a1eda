/** Light or dark: as the system says, until the user chooses. */

const STORED = "avm.theme";

export function startTheme(): void {
  const stored = localStorage.getItem(STORED);
  if (stored === "light" || stored === "dark") document.documentElement.dataset["theme"] = stored;
}

export function changeTheme(): void {
  const root = document.documentElement;
  const isDark = root.dataset["theme"] === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : root.dataset["theme"] === "dark";
  root.dataset["theme"] = isDark ? "light" : "dark";
  localStorage.setItem(STORED, root.dataset["theme"]);
}
