// Comfort for the console: each page works without it.
"use strict";

// What only a script can do is hidden until it runs.
function showWhatNeedsScript(root) {
  for (const one of root.querySelectorAll("[data-script]")) one.hidden = false;
}

function isTyping(target) {
  return target.closest("input, select, textarea, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !isTyping(event.target)) {
    event.preventDefault();
    document.getElementById("find")?.focus();
  }
  if (event.key === "Escape") closeMenus(null);
});

function closeMenus(target) {
  for (const menu of document.querySelectorAll("details.menu[open]"))
    if (!menu.contains(target)) menu.open = false;
}
document.addEventListener("click", (event) => closeMenus(event.target));

// <button hidden data-script data-copy="id">: copies the text of an element.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  await navigator.clipboard.writeText(source.innerText.trim());
  button.querySelector("[data-done]").hidden = false;
});

showWhatNeedsScript(document);
document.addEventListener("htmx:afterSwap", (event) => showWhatNeedsScript(event.target));
