// What unfold's dialogs lack: a role, the focus, and the way back; and names for what
// only has an icon.
document.addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("modal-content");
  let opener = null;
  if (box) {
    box.setAttribute("role", "dialog");
    box.setAttribute("aria-modal", "true");
    box.setAttribute("aria-label", "Dialog");
    const shown = () => box.offsetParent !== null;
    const inside = () => [...box.querySelectorAll("a[href], button, input:not([type=hidden]), textarea, select")];
    document.addEventListener("htmx:beforeRequest", (event) => {
      if (!box.contains(event.target)) opener = event.target;
    });
    document.addEventListener("htmx:afterSettle", () => {
      if (box.querySelector("#dialog-title")) box.setAttribute("aria-labelledby", "dialog-title");
      // The way back comes first where there is nothing to type.
      const fields = "input:not([type=hidden]), textarea, select";
      const first = box.querySelector(fields) || box.querySelector(".cancel");
      setTimeout(() => {
        // A person who types already stays in the same field.
        if (!box.contains(document.activeElement?.closest(fields))) (first || box).focus();
      }, 60);
    });
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Tab") return;
      const all = inside();
      const edge = event.shiftKey ? all[0] : all[all.length - 1];
      if (document.activeElement === edge) {
        event.preventDefault();
        (event.shiftKey ? all[all.length - 1] : all[0]).focus();
      }
    });
    new MutationObserver(() => {
      if (!shown() && opener) {
        opener.focus();
        opener = null;
      }
    }).observe(box.parentElement, { attributes: true, attributeFilter: ["style"] });
  }
  document.getElementById("main")?.setAttribute("role", "main");
  document.getElementById("searchbar-submit")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".\\!px-0").forEach((more) => more.setAttribute("aria-label", "Actions"));
  document.querySelectorAll("a.sortremove").forEach((link) => link.setAttribute("aria-label", "Do not sort by this"));
  const nameRegions = () =>
    document.querySelectorAll("[role=region][aria-label='scrollable content']").forEach((region, number) => {
      region.setAttribute("aria-label", region.closest("nav") ? "Pages" : `Rows ${number}`);
    });
  window.addEventListener("load", nameRegions);
  setTimeout(nameRegions, 200);
  // Icons are drawn by ligatures: their names are not words of the page.
  document.querySelectorAll(".material-symbols-outlined").forEach((icon) => icon.setAttribute("aria-hidden", "true"));
  document.querySelectorAll("[x-on\\:click]:not(a[href]):not(button):not(input)").forEach((thing) => {
    if (thing.textContent.trim() && thing.matches("span.material-symbols-outlined")) {
      const open = { close: "Close the menu", menu: "Open the menu", dock_to_right: "Menu" }[thing.textContent.trim()];
      thing.removeAttribute("aria-hidden");
      thing.setAttribute("role", "button");
      thing.setAttribute("tabindex", "0");
      thing.setAttribute("aria-label", open || thing.textContent.trim().replaceAll("_", " "));
      thing.addEventListener("keydown", (event) => event.key === "Enter" && thing.click());
    }
  });
});
