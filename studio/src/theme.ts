// Light and dark: that of the system, until the reader chooses.

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

/** Give a button that changes the theme; `chosen` and `choose` know the choice of the reader, if there is one. */
export function themed(button: HTMLElement, chosen: () => string | undefined, choose: (theme: "light" | "dark") => void): () => void {
  const apply = (): void => {
    const theme = chosen() ?? (prefersDark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    // The listeners are those of the pictures, and go with them.
    for (const canvas of document.querySelectorAll("canvas")) canvas.dispatchEvent(new Event("themechange"));
  };
  button.addEventListener("click", () => {
    choose(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    apply();
  });
  prefersDark.addEventListener("change", apply);
  return apply;
}
